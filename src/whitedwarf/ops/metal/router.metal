// The score of a router's logit.

#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;

constant constexpr float WEIGHT_SUM_FLOOR = 6.103515625e-05f;  // the smallest normal f16

// log(1 + x) of x in 0..1: the quotient takes back what the sum lost.
inline float log_of_one_and(float x) {
  const float sum = 1.0f + x;
  return sum == 1.0f ? x : log(sum) * x / (sum - 1.0f);
}

// sqrt(softplus(logit)); far below zero softplus is the exponential itself, which f32 could not hold.
inline float router_score(float logit) {
  if (logit < -20.0f) return exp(logit * 0.5f);
  return sqrt(max(logit, 0.0f) + log_of_one_and(exp(-fabs(logit))));
}
