// What the norms over channels share: moments of columns in one pass, and how results lie.
#pragma once

#include <utility>
#include <vector>

#include "ops/common.h"
#include "ops/formula.h"

namespace thunder::ops::torch {

/// Of three elements that lie apart, the one in the middle: it is a usual one even if an element is far off.
Formula median(const Formula& p, const Formula& q, const Formula& r);

/// Mean and variance of columns over `dims`, `count` elements each.  `about`, without these dimensions, is a value in
/// the middle of each column: sums of squares lose digits where the mean is large, so they are taken about this value.
std::pair<Formula, Formula> moments_about(const Formula& columns, const Formula& about,
                                          const std::vector<int64_t>& dims, const Dim& count);

/// As ATen lays out the result: channels last if the input is, else row-major.
Expr suggested_layout(Builder& b, const Arg& x);

/// The dtype of saved statistics: that of the input, but float32 where a parameter of `names` has another one.
DType statistics_beside(const Args& a, const std::vector<const char*>& names);

}  // namespace thunder::ops::torch
