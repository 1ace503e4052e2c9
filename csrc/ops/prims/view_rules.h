// Index maps and write-backs of the view primitives, for the fields of their records (core/op.h).
#pragma once

#include "core/op.h"

namespace thunder::ops::prims {

std::optional<IndexMap> same_places(const Args& a, const TensorType& result);  ///< detach, restride
std::optional<IndexMap> row_major(const Args& a, const TensorType& result);    ///< view, reshape
std::optional<IndexMap> broadcast_map(const Args& a, const TensorType& result);
std::optional<IndexMap> transpose_map(const Args& a, const TensorType& result);
std::optional<IndexMap> slice_map(const Args& a, const TensorType& result);
std::optional<IndexMap> squeeze_map(const Args& a, const TensorType& result);
std::optional<IndexMap> diagonal_map(const Args& a, const TensorType& result);
std::optional<IndexMap> unfold_map(const Args& a, const TensorType& result);
std::optional<IndexMap> flip_map(const Args& a, const TensorType& result);

/// The elements of `written` itself.
Arg write_as_it_is(Builder& b, const Args& view, const Expr& base, const Expr& written, const char* op);
Arg write_reshaped(Builder& b, const Args& view, const Expr& base, const Expr& written, const char* op);
Arg write_broadcast(Builder& b, const Args& view, const Expr& base, const Expr& written, const char* op);
Arg write_transposed(Builder& b, const Args& view, const Expr& base, const Expr& written, const char* op);
Arg write_slice(Builder& b, const Args& view, const Expr& base, const Expr& written, const char* op);
Arg write_narrow(Builder& b, const Args& view, const Expr& base, const Expr& written, const char* op);
Arg write_as_strided(Builder& b, const Args& view, const Expr& base, const Expr& written, const char* op);
Arg write_diagonal(Builder& b, const Args& view, const Expr& base, const Expr& written, const char* op);
Arg write_as_dtype(Builder& b, const Args& view, const Expr& base, const Expr& written, const char* op);
Arg write_as_complex(Builder& b, const Args& view, const Expr& base, const Expr& written, const char* op);
Arg write_as_real(Builder& b, const Args& view, const Expr& base, const Expr& written, const char* op);
Arg write_conjugated(Builder& b, const Args& view, const Expr& base, const Expr& written, const char* op);

}  // namespace thunder::ops::prims
