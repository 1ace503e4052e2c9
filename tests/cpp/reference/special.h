// Functions that the C++ library lacks.
#pragma once

#include "reference/array.h"

namespace thunder::reference {

double digamma(double x);
/// The n-th derivative of digamma.
double polygamma(int64_t n, double x);
double erfinv(double x);
/// The neighbour of x towards y among the numbers of the type.
double next_after(DType t, double x, double y);

}  // namespace thunder::reference
