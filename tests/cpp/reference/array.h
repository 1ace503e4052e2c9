// Arrays of the reference evaluator: a logical shape and a flat row-major list of elements.
//
// Nothing here is shared with what it checks: rounding, conversion and indexing are written out a second time.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"

namespace thunder::reference {

/// The evaluated program is wrong: a value used before it is defined, a result of another shape or type than declared.
class Wrong : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The operation has no result for these values (division of an integer by zero, an index out of range).
class Undefined : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The evaluator does not know the operator.
class Unknown : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Shape = std::vector<int64_t>;

/// Integers and bools are in `i`, the others in `re` and `im`.
struct Element {
  int64_t i = 0;
  double re = 0, im = 0;

  static Element integer(int64_t v) { return {v, 0, 0}; }
  static Element real(double v) { return {0, v, 0}; }
  static Element complex(std::complex<double> v) { return {0, v.real(), v.imag()}; }
  std::complex<double> z() const { return {re, im}; }
};

bool is_exact(DType t);  ///< bool or integer: the value is in Element::i

struct Array {
  DType dtype = DType::f64;
  Device device;
  Shape shape;
  std::vector<Element> data;

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t numel() const { return static_cast<int64_t>(data.size()); }
};

using ArrayPtr = std::shared_ptr<Array>;

/// How a result is stored: rounded to its type, or kept in double (for finite differences).
enum class Rounding { Exact, None };

int64_t count(const Shape& shape);
ArrayPtr make_array(DType dtype, Device device, Shape shape);
/// Position of a logical index in the flat list.
int64_t flat(const Shape& shape, const Shape& index);
/// Calls `fn` for every index of the shape, the last dimension fastest.
void for_each_index(const Shape& shape, const std::function<void(const Shape&)>& fn);
/// An out-of-place dimension made non-negative; a 0-d tensor counts as having one dimension.
int64_t wrap_dim(int64_t dim, int64_t rank);

/// The nearest number of a floating type, ties to even, as a cast does it.
double round_real(DType t, double x);
/// What stays of an element when it is stored as `t`.
Element stored(DType t, Element e, Rounding rounding);
/// A value of one type as a value of another; the caller stores it.
Element converted(Element e, DType from, DType to);
double to_double(Element e, DType t);
bool is_true(Element e, DType t);
/// The same element, bit by bit, except that all NaN are alike.
bool same_element(const Element& a, const Element& b, DType t);
/// Same type, shape and elements.  `why` says where not.
bool same_array(const Array& a, const Array& b, std::string* why = nullptr);

}  // namespace thunder::reference
