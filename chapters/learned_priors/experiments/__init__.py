"""Experiments of the chapter on sampling with learned priors."""
