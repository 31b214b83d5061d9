// Noise by key, and draws of Bayesian weights with their gradients, each in one pass over memory.
//
// Number i of a key is a function of both, the same to the bit as `bnnlib/_native/counter.py` has it in PyTorch, so that
// a backward pass makes again what the forward pass has drawn and keeps nothing. No library is called and no
// multiplication is contracted with an addition: the numbers are those of every processor, whatever its vectors.
#include <cstdint>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(BNNLIB_PLAIN)
#define EVERY __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EVERY
#endif
#define IN static inline __attribute__((always_inline))
#define LOOP _Pragma("omp simd")
typedef uint32_t u32;

IN float as_float(u32 x) { float y; memcpy(&y, &x, 4); return y; }
IN u32 as_bits(float x) { u32 y; memcpy(&y, &x, 4); return y; }
IN float absolute(float x) { return as_float(as_bits(x) & 0x7fffffffu); }

// Wellons' triple32; two rounds must follow the second half of the key, or keys that differ in one bit are correlated
IN u32 word(u32 x, u32 k0, u32 k1) {
  x ^= k0; x ^= x >> 17; x *= 0xed5ad4bbu; x ^= x >> 11; x ^= k1; x *= 0xac4c1b51u; x ^= x >> 15; x *= 0x31848babu;
  return x ^ (x >> 14);
}
// ln x for normal x > 0, to 3e-7 where |ln x| < 1 and to rounding beyond
IN float ln(float x) {
  u32 b = as_bits(x) - 0x3f3504f3u;
  float e = (float)((int32_t)b >> 23), m = as_float((b & 0x7fffffu) + 0x3f3504f3u) - 1.f, z = m * m;
  float q = (0.1994744553f - 0.1700165824f*m) + (0.1581938835f - 0.1049052654f*m) * z;
  q = (0.3333362390f - 0.2499183955f*m) + q*z;
  return (q*m - 0.5f)*z + m + e*0.69314718056f;
}
// (0, 1], with all digits where it is small: the tail of the normal law reaches 6.7
IN float tail(u32 a) { return ((float)(int32_t)(a & 0x7fffffffu) + 0.5f) * 4.656612873e-10f; }
// (0, 1), never an end
IN float unit(u32 a) { return ((float)(int32_t)(a >> 9) + 0.5f) * 1.1920928955078125e-7f; }
IN float logistic(u32 i, u32 k0, u32 k1) { float u = unit(word(i, k0, k1)); return ln(u/(1.f - u)); }
IN float cosine(u32 turn) {  // of 2 pi turn / 2^32
  float x = (absolute((float)(int32_t)turn)*2.3283064365386963e-10f - 0.25f) * -6.2831853071795864f, y = x*x;
  return x*(((2.6e-6f*y - 1.9515295891e-4f)*y + 8.3321608736e-3f)*(y*y) + (-1.6666654611e-1f*y + 1.f));
}
struct Pair { float a, b; };
IN Pair gauss(u32 j, u32 k0, u32 k1) {  // Box and Muller
  u32 t = word(2*j + 1, k0, k1);
  float r = __builtin_sqrtf(-2.f*ln(tail(word(2*j, k0, k1))));
  return {r*cosine(t), r*cosine(t - (1u << 30))};
}
IN float ex(float x) {  // e^x for x <= 0
  x = x < -87.f ? -87.f : x;
  float n = (float)(int32_t)(x*1.44269504f - 0.5f), f = (x - n*0.693359375f) + n*2.12194440e-4f, z = f*f;
  float p = (0.5f + 1.666657703e-1f*f) + ((4.166655466e-2f + 8.363173075e-3f*f) + 1.392617612e-3f*z)*z;
  return (p*z + (f + 1.f)) * as_float((u32)((int32_t)n + 127) << 23);
}
struct Spread { float scale, slope; };
// softplus(rho) to full relative precision, and its derivative; what lies below -80 counts as -80
IN Spread softplus(float rho) {
  rho = rho < -80.f ? -80.f : rho;
  float e = ex(-absolute(rho)), a = 1.f + e, b = 2.f + e, d = 1.f/(a*b), s = e*(a*d), z = s*s;
  float p = (0.6666632164f + 0.4002459523f*z) + (0.2796515776f + 0.2815777831f*z)*(z*z);
  float over = s*(2.f + p*z), q = b*d;
  return {rho > 0 ? rho + over : over, rho > 0 ? q : e*q};
}
IN float open(float eta) { return eta > 0 ? 1.f : eta <= 0 ? 0.f : eta; }  // NaN stays NaN

// as `__init__.py` packs it: two keys in halves, pointers and constants
struct Call { int kernel, n, items, threads; u32 k[4]; const float* in[4]; float* out[4]; float c[8]; };

extern "C" {
// pairs: number j is the cosine's and number h + j the sine's; of an odd count the last cosine stands alone
#define PAIRS(ONE) \
  const int n = call->n, h = n - n/2, whole = last < n - h ? last : n - h; const u32 k0 = call->k[0], k1 = call->k[1]; \
  LOOP for (int j = first; j < whole; j++) { Pair z = gauss((u32)j, k0, k1); ONE(j, z.a) ONE(h + j, z.b) } \
  for (int j = whole > first ? whole : first; j < last; j++) { Pair z = gauss((u32)j, k0, k1); ONE(j, z.a) }
#define KERNEL(NAME) EVERY static void NAME(const Call* call, int first, int last)
#define IN_(NAME, I) const float* __restrict NAME = call->in[I];
#define OUT_(NAME, I) float* __restrict NAME = call->out[I];

#define ONE(i, z) o[i] = z;
KERNEL(normal) { OUT_(o, 0) PAIRS(ONE) }
#undef ONE
KERNEL(uniform) { OUT_(o, 0) const u32 k0 = call->k[0], k1 = call->k[1];
  LOOP for (int i = first; i < last; i++) o[i] = unit(word((u32)i, k0, k1)); }
KERNEL(signs) { OUT_(o, 0) const u32 k0 = call->k[0], k1 = call->k[1];
  LOOP for (int i = first; i < last; i++) o[i] = word((u32)i, k0, k1) >> 31 ? 1.f : -1.f; }
KERNEL(logistics) { OUT_(o, 0) const u32 k0 = call->k[0], k1 = call->k[1];
  LOOP for (int i = first; i < last; i++) o[i] = logistic((u32)i, k0, k1); }

// mean + softplus(rho) * noise
#define ONE(i, z) o[i] = mean[i] + softplus(rho[i]).scale*(z);
KERNEL(gaussian) { IN_(mean, 0) IN_(rho, 1) OUT_(o, 0) PAIRS(ONE) }
#undef ONE
// gradients in mean and rho of the weight, and of t times the divergence to N(0, 1/p); c is t, t p
#define ONE(i, z) { float gi = g[i], m = mean[i]; Spread s = softplus(rho[i]); \
  dm[i] = gi + tp*m; dr[i] = (gi*(z) + (tp*s.scale - t/s.scale))*s.slope; }
KERNEL(gaussian_grad) { IN_(mean, 0) IN_(rho, 1) IN_(g, 2) OUT_(dm, 0) OUT_(dr, 1)
  const float t = call->c[0], tp = call->c[1]; PAIRS(ONE) }
#undef ONE
// the same under N(0, 1/p) with probability 1 - share and N(0, 1/(p + more)) with share, whose log-odds fall with the
// second moment: at its expectation, where the divergence is that of the best share, or at the drawn weight's square
IN float precision(float moment, float p, float more, float odds) {
  float a = 0.5f*more*moment + odds, y = ex(-absolute(a)), q = 1.f/(1.f + y), share = a > 0 ? y*q : q;
  return p + (a > 86.f ? 0.f : more)*share;  // e^-a ends there
}
#define PRIOR const float t = call->c[0], p = call->c[1], more = call->c[2], odds = call->c[3];
#define ONE(i, z) { float gi = g[i], m = mean[i]; Spread s = softplus(rho[i]); \
  float v = precision(m*m + s.scale*s.scale, p, more, odds); \
  dm[i] = gi + t*(m*v); dr[i] = (gi*(z) + t*(s.scale*v - 1.f/s.scale))*s.slope; }
KERNEL(profile_grad) { IN_(mean, 0) IN_(rho, 1) IN_(g, 2) OUT_(dm, 0) OUT_(dr, 1) PRIOR PAIRS(ONE) }
#undef ONE
#define ONE(i, z) { float gi = g[i]; Spread s = softplus(rho[i]); float w = mean[i] + s.scale*(z); \
  float score = w*precision(w*w, p, more, odds); \
  dm[i] = gi + t*score; dr[i] = (gi*(z) + t*(score*(z) - 1.f/s.scale))*s.slope; }
KERNEL(mixture_grad) { IN_(mean, 0) IN_(rho, 1) IN_(g, 2) OUT_(dm, 0) OUT_(dr, 1) PRIOR PAIRS(ONE) }
#undef ONE

// the slab's weight where the gate is open, and 0 where it is closed
#define ONE(i, z) { float slab = mean[i] + softplus(rho[i]).scale*(z); \
  o[i] = slab*open(logit[i] + logistic((u32)(i), k2, k3)); }
KERNEL(spike_slab) { IN_(mean, 0) IN_(rho, 1) IN_(logit, 2) OUT_(o, 0) const u32 k2 = call->k[2], k3 = call->k[3]; PAIRS(ONE) }
#undef ONE
// the same through the soft gate, with t times the divergence; c is t, the prior's precision p, a constant, 1/temperature
#define ONE(i, z) { float gi = g[i], m = mean[i], l = logit[i]; Spread s = softplus(rho[i]); \
  float e = ex(-absolute(l)), q = 1.f/(1.f + e), on = l > 0 ? q : e*q, off = l > 0 ? e*q : q, tf = t*on; \
  float eta = l + logistic((u32)(i), k2, k3), y = ex(-absolute(eta)*cold), v = 1.f + y, gg = gi*open(eta); \
  float kl = (c - ln(s.scale)) + (half*(s.scale*s.scale + m*m) + l); \
  dm[i] = gg + tf*(p*m); dr[i] = (gg*(z) + tf*(p*s.scale - 1.f/s.scale))*s.slope; \
  dl[i] = gi*(m + s.scale*(z))*(y/(v*v)*cold) + tf*off*kl; }
KERNEL(spike_slab_grad) { IN_(mean, 0) IN_(rho, 1) IN_(logit, 2) IN_(g, 3) OUT_(dm, 0) OUT_(dr, 1) OUT_(dl, 2)
  const u32 k2 = call->k[2], k3 = call->k[3];
  const float t = call->c[0], p = call->c[1], c = call->c[2], cold = call->c[3], half = 0.5f*p; PAIRS(ONE) }
#undef ONE

// variances of weights whose outputs are drawn: softplus(rho)^2 or e^rho, with the gradients in mean and rho of both
// moments and of t times the divergence, to N(0, 1/p) (c is t, t p) or the fit of Molchanov et al. (2017) (c is t)
KERNEL(variance) { IN_(rho, 0) OUT_(o, 0)
  LOOP for (int i = first; i < last; i++) { float s = softplus(rho[i]).scale; o[i] = s*s; } }
KERNEL(variance_grad) { IN_(mean, 0) IN_(rho, 1) IN_(gm, 2) IN_(gv, 3) OUT_(dm, 0) OUT_(dr, 1)
  const float t = call->c[0], tp = call->c[1];
  LOOP for (int i = first; i < last; i++) { Spread s = softplus(rho[i]);
    dm[i] = gm[i] + tp*mean[i]; dr[i] = (gv[i]*(2.f*s.scale) + (tp*s.scale - t/s.scale))*s.slope; } }
IN float power(float x) { float e = ex(-absolute(x)); return x > 0 ? 1.f/e : e; }
KERNEL(power_variance) { IN_(rho, 0) OUT_(o, 0) LOOP for (int i = first; i < last; i++) o[i] = power(rho[i]); }
KERNEL(power_variance_grad) { IN_(mean, 0) IN_(rho, 1) IN_(gm, 2) IN_(gv, 3) OUT_(dm, 0) OUT_(dr, 1)
  const float t = call->c[0];
  LOOP for (int i = first; i < last; i++) {
    float m = mean[i], square = m*m + 1e-8f, a = rho[i] - ln(square), u = 1.87320f + 1.48695f*a;
    float e = ex(-absolute(u)), q = 1.f/(1.f + e), y = ex(-absolute(a)), v = 1.f/(1.f + y);
    float d = t*(-0.945343332f*(e*q*q) - 0.5f*(a > 0 ? y*v : v));
    dm[i] = gm[i] - 2.f*(m/square)*d; dr[i] = d + gv[i]*power(rho[i]); } }
// an output from its mean and variance, whose root begins at c[1] after c[0] is added; and the gradient in the variance
#define ONE(i, z) { float v = variance[i] + add; o[i] = mean[i] + __builtin_sqrtf(v < least ? least : v)*(z); }
KERNEL(local) { IN_(mean, 0) IN_(variance, 1) OUT_(o, 0) const float add = call->c[0], least = call->c[1]; PAIRS(ONE) }
#undef ONE
#define ONE(i, z) { float v = variance[i] + add, r = 0.5f/__builtin_sqrtf(v < least ? least : v); \
  d[i] = v < least ? 0.f : g[i]*(z)*r; }
KERNEL(local_grad) { IN_(variance, 0) IN_(g, 1) OUT_(d, 0) const float add = call->c[0], least = call->c[1]; PAIRS(ONE) }
#undef ONE

// a step of Langevin dynamics in place: of p and its velocity v, or of p alone, along the gradient and a ridge's
#define ONE(i, z) { float w = p[i], u = c[0]*v[i] - c[1]*(g[i] + c[2]*w); \
  p[i] = w + (c[3]*u + c[4]*(z)); v[i] = c[5]*u + c[6]*(z); }
KERNEL(hamiltonian) { IN_(g, 0) OUT_(p, 0) OUT_(v, 1)
  const float c[] = {call->c[0], call->c[1], call->c[2], call->c[3], call->c[4], call->c[5], call->c[6]}; PAIRS(ONE) }
#undef ONE
#define ONE(i, z) { float w = p[i]; p[i] = w - c0*(g[i] + c1*w) + c2*(z); }
KERNEL(langevin) { IN_(g, 0) OUT_(p, 0) const float c0 = call->c[0], c1 = call->c[1], c2 = call->c[2]; PAIRS(ONE) }
#undef ONE

// the gradient of k0 |w| / s + k1 w^2 / 2 s^2 in w, added to g; c is 1/s, 1/s^2
KERNEL(prior_grad) { IN_(w, 0) IN_(k0, 1) IN_(k1, 2) OUT_(g, 0) const float a = call->c[0], b = call->c[1];
  LOOP for (int i = first; i < last; i++) {
    float x = w[i], sign = x > 0 ? 1.f : x < 0 ? -1.f : x;
    g[i] = g[i] + a*(k0[i]*sign) + b*(k1[i]*x); } }
// rho, k0 and k1 moved by c[0] towards their optimum at w, as `adaptive_prior.py` has it (c is the step, the log-odds'
// coefficients, 1/v0, 1/v1, and the steps again or 0 for what stays); of each block of weights the sums of k0 |w|,
// k1 w^2 and rho, in lanes of their own: neither vectors nor threads change them
enum { BLOCK = 1024, LANES = 16 };
KERNEL(prior_move) { IN_(w, 0) OUT_(r, 0) OUT_(k0, 1) OUT_(k1, 2) OUT_(sums, 3)
  const float constant = call->c[0], linear = call->c[1], quadratic = call->c[2], v0 = call->c[3], v1 = call->c[4],
    dr = call->c[5], dk = call->c[6];
  for (int start = (first + BLOCK - 1)/BLOCK*BLOCK; start < last; start += BLOCK) {
    float s0[LANES] = {0}, s1[LANES] = {0}, s2[LANES] = {0};
    for (int row = start; row < start + BLOCK && row < call->n; row += LANES) {
      const int lanes = call->n - row < LANES ? call->n - row : LANES;
#define ONE { const int i = row + lane; float x = absolute(w[i]), y = w[i]*w[i], a = constant + linear*x + quadratic*y, \
      e = ex(-absolute(a)), q = 1.f/(1.f + e), p = r[i]; p = p + dr*((a > 0 ? q : e*q) - p); \
      float l0 = k0[i], l1 = k1[i]; l0 = l0 + dk*((1.f - p)*v0 - l0); l1 = l1 + dk*(p*v1 - l1); \
      r[i] = p; k0[i] = l0; k1[i] = l1; s0[lane] += l0*x; s1[lane] += l1*y; s2[lane] += p; }
      if (lanes == LANES) { LOOP for (int lane = 0; lane < LANES; lane++) ONE }
      else for (int lane = 0; lane < lanes; lane++) ONE
#undef ONE
    }
    float* out = sums + 3*(start/BLOCK); out[0] = out[1] = out[2] = 0;
    for (int lane = 0; lane < LANES; lane++) { out[0] += s0[lane]; out[1] += s1[lane]; out[2] += s2[lane]; }
  }
}

typedef void (*Kernel)(const Call*, int, int);
static const Kernel kernels[] = {normal, uniform, signs, logistics, gaussian, gaussian_grad, spike_slab, spike_slab_grad,
  profile_grad, mixture_grad, hamiltonian, langevin, prior_grad, prior_move,
  variance, variance_grad, power_variance, power_variance_grad, local, local_grad};

// of the OpenMP library that PyTorch has loaded, so that its threads serve here too; given once, or never
typedef void (*Team)(void (*)(void*), void*, unsigned, unsigned);
typedef int (*Number)();
static Team team; static Number number, count;
void bnnlib_threads(void* parallel, void* own, void* all) { team = (Team)parallel; number = (Number)own; count = (Number)all; }

struct Work { Kernel kernel; const Call* call; int items; };
static void part(void* given) {
  const Work* work = (const Work*)given; const int64_t all = count(), own = number();
  work->kernel(work->call, (int)(work->items*own/all), (int)(work->items*(own + 1)/all));
}
void bnnlib_run(const Call* call) {
  Work work = {kernels[call->kernel], call, call->items};
  if (call->threads > 1 && team) team(part, &work, (unsigned)call->threads, 0); else work.kernel(call, 0, call->items);
}
}
