// Determinants, inverses and solutions by the factors of ops/factors.cpp; matrix powers.
#include "flambeau/generated/impl.h"
#include "flambeau/ops/matrices.h"

namespace flambeau::ops {

Ints common_batch(std::string_view op, const Tensor& a, const Tensor& b) {
  Tensor one = empty(batch_sizes(a), DType::Bool, std::nullopt, Device{DeviceType::Meta});
  Tensor two = empty(batch_sizes(b), DType::Bool, std::nullopt, Device{DeviceType::Meta});
  return broadcast_sizes(op, {&one, &two});
}

namespace {

constexpr std::string_view kSingular = "A must not be singular; the first zero pivot";
const Scalar kZero(int64_t{0});

Tensor last_diagonal(const Tensor& a) { return diagonal(a, 0, -2, -1); }
Tensor identity_like(const Tensor& a, int64_t n) {
  return eye(n, a.dtype(), std::nullopt, a.device());
}

// -1 where the row exchanges are odd.
Tensor parity(const Tensor& pivots, DType dtype) {
  Tensor own = arange(Scalar(int64_t{1}), Scalar(pivots.size(-1) + 1), DType::Int32, std::nullopt,
                      pivots.device());
  constexpr int64_t kLast = -1;
  Tensor odd = remainder(sum(pivots != own, IntList(&kLast, 1)), Scalar(int64_t{2}));
  return Scalar(1.0) - to(odd, dtype) * Scalar(2.0);
}

// Rows of b in the order of `order`, both broadcast over their leading dims.
Tensor rows_in_order(const Tensor& b, const Tensor& order) {
  return gather(b, -2, expand(unsqueeze(order, -1), b.sizes()));
}

Tensor triangular(const Tensor& a, const Tensor& b, bool upper, bool unit = false) {
  return linalg_solve_triangular(a, b, upper, /*left=*/true, unit);
}

// Both with the leading sizes that they broadcast to.
std::pair<Tensor, Tensor> broadcast_matrices(std::string_view op, const Tensor& a,
                                             const Tensor& b) {
  if (batch_sizes(a) == batch_sizes(b)) return {a, b};
  Ints sizes = common_batch(op, a, b);
  auto grown = [&](const Tensor& t) {
    Ints full = sizes;
    full.push_back(t.size(-2));
    full.push_back(t.size(-1));
    return expand(t, full);
  };
  return {grown(a), grown(b)};
}

// Is b a batch of vectors rather than of matrices?
bool holds_vectors(const Tensor& a, const Tensor& b) {
  return b.ndim() == 1 || (b.ndim() == a.ndim() - 1 && b.sizes() == IntList(batch_sizes(a, 1)));
}

std::tuple<Tensor, Tensor> solved(std::string_view op, const Tensor& A, const Tensor& B,
                                  bool left) {
  check_square(op, A);
  FL_CHECK(A.dtype() == B.dtype(), RuntimeError, "{}: A and B must have one dtype, got {} and {}",
           op, A.dtype(), B.dtype());
  FL_CHECK(B.ndim() >= 1, RuntimeError, "{}: B must have at least one dim", op);
  if (holds_vectors(A, B)) {
    FL_CHECK(left, RuntimeError, "{}: left=False needs matrices, got B of shape {}", op, B.sizes());
    auto [x, info] = solved(op, A, unsqueeze(B, -1), true);
    return {squeeze(x, -1), info};
  }
  FL_CHECK(B.size(left ? -2 : -1) == A.size(-1), RuntimeError,
           "{}: A and B must have sizes that fit, got {} and {}", op, A.sizes(), B.sizes());
  if (!left) {
    auto [x, info] = solved(op, transpose(A, -2, -1), transpose(B, -2, -1), true);
    return {transpose(x, -2, -1), info};
  }
  auto [a, b] = broadcast_matrices(op, A, B);
  return _linalg_solve(a, b);
}

}  // namespace

std::tuple<Tensor, Tensor> solve_ex_impl(const Tensor& A, const Tensor& B, bool left,
                                         bool check_errors) {
  auto result = solved("linalg.solve_ex", A, B, left);
  if (check_errors) check_info("linalg.solve_ex", std::get<1>(result), kSingular);
  return result;
}
Tensor solve_impl(const Tensor& A, const Tensor& B, bool left) {
  auto [x, info] = solved("linalg.solve", A, B, left);
  check_info("linalg.solve", info, kSingular);
  return x;
}

Tensor solve_triangular_impl(const Tensor& self, const Tensor& B, bool upper, bool left,
                             bool unitriangular) {
  constexpr auto op = "linalg.solve_triangular";
  check_matrix(op, self);
  check_matrix(op, B);
  int64_t n = self.size(-1);
  FL_CHECK(self.size(-2) == n && B.size(left ? -2 : -1) == n && self.dtype() == B.dtype(),
           RuntimeError,
           "{}: A must be square, of B's dtype and as large as B's {}, got {} of {} and {} of {}",
           op, left ? "columns" : "rows", self.sizes(), self.dtype(), B.sizes(), B.dtype());
  if (!left)
    return transpose(linalg_solve_triangular(transpose(self, -2, -1), transpose(B, -2, -1), !upper,
                                             true, unitriangular),
                     -2, -1);
  auto [a, b] = broadcast_matrices(op, self, B);
  return _linalg_solve_triangular(a, b, upper, unitriangular);
}
std::tuple<Tensor, Tensor> triangular_solve_impl(const Tensor& self, const Tensor& A, bool upper,
                                                 bool transposed, bool unitriangular) {
  Tensor a = transposed ? transpose(A, -2, -1) : A;
  return {linalg_solve_triangular(a, self, upper != transposed, true, unitriangular), clone(A)};
}

// ---- inverses ----

std::tuple<Tensor, Tensor> inv_ex_impl(const Tensor& A, bool check_errors) {
  check_square("linalg.inv", A);
  auto result = _linalg_solve(A, expand(identity_like(A, A.size(-1)), A.sizes()));
  if (check_errors) check_info("linalg.inv_ex", std::get<1>(result), kSingular);
  return result;
}
Tensor inv_impl(const Tensor& A) {
  auto [inverse, info] = linalg_inv_ex(A);
  check_info("linalg.inv", info, kSingular);
  return inverse;
}

// ---- determinants ----

namespace {

// The factors of A or of its transpose, which has the same determinant: as torch does, whose
// roundings those of small integers would otherwise differ from.
std::tuple<Tensor, Tensor, Tensor> determinant_factors(const Tensor& A) {
  bool turn = A.is_contiguous() && !is_complex(A.dtype());
  return linalg_lu_factor_ex(turn ? transpose(A, -2, -1) : A);
}

}  // namespace

Tensor det_impl(const Tensor& A) {
  check_square("linalg.det", A);
  auto [lu, pivots, info] = determinant_factors(A);
  return prod(last_diagonal(lu), -1) * parity(pivots, real_of(A.dtype()));
}
std::tuple<Tensor, Tensor> slogdet_impl(const Tensor& A) {
  check_square("linalg.slogdet", A);
  auto [lu, pivots, info] = determinant_factors(A);
  Tensor pivot = last_diagonal(lu);
  constexpr int64_t kLast = -1;
  return {prod(sgn(pivot), -1) * parity(pivots, real_of(A.dtype())),
          sum(log(abs(pivot)), IntList(&kLast, 1))};
}
Tensor logdet_impl(const Tensor& self) {
  auto [sign, size] = linalg_slogdet(self);
  return log(sign) + size;
}

// ---- LU ----

std::tuple<Tensor, Tensor> lu_factor_impl(const Tensor& A, bool pivot) {
  auto [lu, pivots, info] = linalg_lu_factor_ex(A, pivot, false);
  check_info("linalg.lu_factor", info, "the pivots must not be zero; the first zero pivot");
  return {lu, pivots};
}

std::tuple<Tensor, Tensor, Tensor> lu_unpack_impl(const Tensor& LU, const Tensor& pivots,
                                                  bool unpack_data, bool unpack_pivots) {
  check_matrix("lu_unpack", LU);
  int64_t m = LU.size(-2), n = LU.size(-1), k = std::min(m, n);
  Tensor nothing = empty({0}, LU.dtype(), std::nullopt, LU.device());
  Tensor p = nothing, l = nothing, u = nothing;
  if (unpack_data) {
    l = tril(narrow(LU, -1, 0, k), -1) + eye(m, k, LU.dtype(), std::nullopt, LU.device());
    u = triu(narrow(LU, -2, 0, k));
  }
  if (unpack_pivots) {
    Tensor order = unsqueeze(_permutation(pivots, m), -2);
    Tensor rows = unsqueeze(arange(Scalar(m), DType::Int64, std::nullopt, LU.device()), -1);
    p = to(rows == order, LU.dtype());
  }
  return {p, l, u};
}
std::tuple<Tensor, Tensor, Tensor> lu_impl(const Tensor& A, bool pivot) {
  auto [lu, pivots, info] = linalg_lu_factor_ex(A, pivot, false);
  return lu_unpack_impl(lu, pivots, true, true);
}

Tensor linalg_lu_solve_impl(const Tensor& LU, const Tensor& pivots, const Tensor& B, bool left,
                            bool adjoint_of) {
  constexpr auto op = "linalg.lu_solve";
  check_square(op, LU);
  check_matrix(op, B);
  FL_CHECK(B.size(left ? -2 : -1) == LU.size(-1) && LU.dtype() == B.dtype(), RuntimeError,
           "{}: LU and B must have sizes and dtypes that fit, got {} of {} and {} of {}", op,
           LU.sizes(), LU.dtype(), B.sizes(), B.dtype());
  if (!left) return adjoint(linalg_lu_solve(LU, pivots, adjoint(B), true, !adjoint_of));
  auto [lu, b] = broadcast_matrices(op, LU, B);
  Tensor order = _permutation(pivots, LU.size(-2));
  if (!adjoint_of)
    return triangular(lu, triangular(lu, rows_in_order(b, order), false, true), true);
  Tensor x = triangular(adjoint(lu), triangular(adjoint(lu), b, false), true, true);
  return rows_in_order(x, argsort(order, -1, false));
}
Tensor lu_solve_impl(const Tensor& self, const Tensor& LU_data, const Tensor& LU_pivots) {
  return linalg_lu_solve(LU_data, LU_pivots, self);
}

// ---- Cholesky ----

Tensor cholesky_impl(const Tensor& self, bool upper) {
  auto [factor, info] = linalg_cholesky_ex(self, upper, false);
  check_info("linalg.cholesky", info,
             "A must be positive definite; the order of the first leading minor that is not");
  return factor;
}
Tensor cholesky_solve_impl(const Tensor& self, const Tensor& input2, bool upper) {
  check_square("cholesky_solve", input2);
  Tensor l = upper ? adjoint(input2) : input2;
  return triangular(adjoint(l), triangular(l, self, false), true);
}
Tensor cholesky_inverse_impl(const Tensor& self, bool upper) {
  check_square("cholesky_inverse", self);
  return cholesky_solve(identity_like(self, self.size(-1)), self, upper);
}

// ---- products ----

Tensor matrix_power_impl(const Tensor& self, int64_t n) {
  FL_CHECK(self.ndim() >= 2 && self.size(-1) == self.size(-2), RuntimeError,
           "linalg.matrix_power: A must be square matrices, got shape {}", self.sizes());
  if (n == 0)
    return _depends(clone(expand(identity_like(self, self.size(-1)), self.sizes())), self);
  Tensor base = n < 0 ? linalg_inv(self) : self, result;
  for (uint64_t rest = n < 0 ? -uint64_t(n) : uint64_t(n);; base = matmul(base, base)) {
    if (rest & 1) result = result.defined() ? matmul(result, base) : base;
    if (!(rest >>= 1)) break;
  }
  return n == 1 ? clone(result) : result;
}

Tensor vecdot_impl(const Tensor& x, const Tensor& y, int64_t dim) {
  FL_CHECK(x.dtype() == y.dtype(), RuntimeError,
           "linalg.vecdot: both must be of one dtype, got {} and {}", x.dtype(), y.dtype());
  return sum(conj(x) * y, IntList(&dim, 1));
}

Tensor vander_impl(const Tensor& x, std::optional<int64_t> N) {
  FL_CHECK(x.dtype() != DType::Bool, RuntimeError, "linalg.vander: numbers are needed, got {}",
           x.dtype());
  if (x.ndim() == 0) return vander_impl(unsqueeze(x, 0), N);
  int64_t columns = N.value_or(x.size(-1));
  FL_CHECK(columns > 1, RuntimeError, "linalg.vander: N must be greater than 1, got {}", columns);
  Ints sizes = x.sizes();
  sizes.push_back(columns - 1);
  Tensor powers = cumprod(expand(unsqueeze(x, -1), sizes), -1);
  sizes[sizes.size() - 1] = 1;
  return cat(std::vector{ones(sizes, powers.dtype(), std::nullopt, x.device()), powers}, -1);
}

Tensor ormqr_impl(const Tensor& self, const Tensor& input2, const Tensor& input3, bool left,
                  bool transposed) {
  constexpr auto op = "ormqr";
  check_matrix(op, self);
  check_matrix(op, input3);
  int64_t m = self.size(-2), k = input2.size(-1);
  FL_CHECK(input3.size(left ? -2 : -1) == m && k <= self.size(-1), RuntimeError,
           "{}: the factors' rows {} must fit the product's size {}", op, m,
           input3.size(left ? -2 : -1));
  if (!left) return adjoint(ormqr(self, input2, adjoint(input3), true, !transposed));
  return k ? times_reflections(self, input2, input3, transposed) : clone(input3);
}

Tensor tensorinv_impl(const Tensor& self, int64_t ind) {
  FL_CHECK(ind > 0 && ind <= self.ndim(), RuntimeError,
           "linalg.tensorinv: ind must be positive, got {}", ind);
  Ints front, back;
  for (int64_t d = 0; d < self.ndim(); d++) (d < ind ? front : back).push_back(self.size(d));
  int64_t rows = count_of(back), columns = count_of(front);
  FL_CHECK(rows == columns, RuntimeError,
           "linalg.tensorinv: the products of the first {} sizes and of the others must be equal, "
           "got {} and {}",
           ind, columns, rows);
  Ints sizes = back;
  for (int64_t n : front) sizes.push_back(n);
  return reshape(linalg_inv(reshape(self, {columns, rows})), sizes);
}

Tensor tensorsolve_impl(const Tensor& self, const Tensor& other, std::optional<IntList> dims) {
  Tensor a = self;
  if (dims) {
    Ints last;
    for (size_t i = 0; i < dims->size(); i++) last.push_back(int64_t(i) - int64_t(dims->size()));
    a = movedim(self, *dims, last);
  }
  FL_CHECK(other.numel() > 0 && a.numel() == other.numel() * other.numel(), RuntimeError,
           "linalg.tensorsolve: self must hold {} times {} elements, got shape {}", other.numel(),
           other.numel(), self.sizes());
  Ints sizes;
  for (int64_t d = other.ndim(); d < a.ndim(); d++) sizes.push_back(a.size(d));
  Tensor matrix = reshape(a, {other.numel(), other.numel()});
  return reshape(linalg_solve(matrix, reshape(other, {-1})), sizes);
}

}  // namespace flambeau::ops
