// Index maps and write-backs of the view primitives, for the fields of their records (core/op.h).
#pragma once

#include <type_traits>

#include "core/op.h"

namespace thunder::ops::prims {

// Index maps.  `same_places`: of detach and restride; `row_major`: of view and reshape.
using IndexMapRule = std::remove_pointer_t<IndexMapFn>;
IndexMapRule same_places, row_major, broadcast_map, transpose_map, slice_map, squeeze_map, diagonal_map, unfold_map;
IndexMapRule flip_map;

// Write-backs.  `write_as_it_is` gives `written` itself; write_as_complex() is for views as real numbers, and vice versa.
using WriteBackRule = std::remove_pointer_t<WriteBackFn>;
WriteBackRule write_as_it_is, write_reshaped, write_broadcast, write_transposed, write_slice, write_narrow;
WriteBackRule write_as_strided, write_diagonal, write_as_dtype, write_as_complex, write_as_real, write_conjugated;

}  // namespace thunder::ops::prims
