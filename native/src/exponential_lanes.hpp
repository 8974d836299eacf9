// The exponential of one matrix in each lane, compiled once and called from other kernels.
// Matrices are (b, b, LANES); see exponential.hpp.
#pragma once

#include "simd.hpp"

namespace slicekit {
namespace SLICEKIT_ISA {

// Numbers of work space that the functions below need.
int64_t lanes_workspace(int64_t b, float);
int64_t lanes_workspace(int64_t b, double);

// e = exp(a) - I; results may stand where the arguments stood.
void lanes_exponential(int64_t b, const float *a, float *e, float *scratch);
void lanes_exponential(int64_t b, const double *a, double *e, double *scratch);

// y = exp(a).
void lanes_exponential_with_identity(int64_t b, const float *a, float *y, float *scratch);
void lanes_exponential_with_identity(int64_t b, const double *a, double *y, double *scratch);

// in_a, the gradient of <in_e, exp(a)> in a.
void lanes_pullback(int64_t b, const float *a, const float *in_e, float *in_a, float *scratch);
void lanes_pullback(int64_t b, const double *a, const double *in_e, double *in_a, double *scratch);

}  // namespace SLICEKIT_ISA
}  // namespace slicekit
