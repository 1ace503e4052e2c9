// Elements as bytes, for views of another element type.
#pragma once

#include "reference/array.h"

namespace thunder::reference {

size_t bytes_of(DType t);
void append_bytes(DType t, Element e, std::vector<uint8_t>& out);
Element from_bytes(DType t, const uint8_t* bytes);

}  // namespace thunder::reference
