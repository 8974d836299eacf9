#include "exponential_lanes.hpp"

#include "exponential.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

int64_t lanes_workspace(int64_t b, float) { return exponential_workspace<float>(b); }
int64_t lanes_workspace(int64_t b, double) { return exponential_workspace<double>(b); }

void lanes_exponential(int64_t b, const float *a, float *e, float *scratch) {
  exponential<float>(b, a, e, scratch);
}
void lanes_exponential(int64_t b, const double *a, double *e, double *scratch) {
  exponential<double>(b, a, e, scratch);
}

void lanes_exponential_with_identity(int64_t b, const float *a, float *y, float *scratch) {
  exponential_with_identity<float>(b, a, y, scratch);
}
void lanes_exponential_with_identity(int64_t b, const double *a, double *y, double *scratch) {
  exponential_with_identity<double>(b, a, y, scratch);
}

void lanes_pullback(int64_t b, const float *a, const float *in_e, float *in_a, float *scratch) {
  exponential_pullback<float>(b, a, in_e, in_a, scratch);
}
void lanes_pullback(int64_t b, const double *a, const double *in_e, double *in_a,
                    double *scratch) {
  exponential_pullback<double>(b, a, in_e, in_a, scratch);
}

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
