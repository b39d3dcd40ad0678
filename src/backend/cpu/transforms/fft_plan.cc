#include "backend/cpu/transforms/fft_plan.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <mutex>
#include <numbers>
#include <optional>
#include <utility>

#include "backend/cpu/transforms/fft_lines.h"

namespace shoal::cpu {
namespace {

// Shorter lines are transformed in lanes, several at once. A matrix has at least so many rows and columns.
constexpr std::int64_t kLeastSplit = 128;
constexpr std::int64_t kLeastOfMatrix = 8;
// Matrices of more elements have factored twiddles.
constexpr std::int64_t kMostTwiddles = 1 << 15;
// Plans that a cache keeps, and the elements of all of them together.
constexpr std::size_t kMostPlans = 64;
constexpr std::int64_t kMostElements = 1 << 22;

template <class T>
struct Root {
  T real;
  T imag;
};

// exp(-2 pi i k / n), by an angle of at most pi / 4.
template <class T>
Root<T> root_of_one(std::int64_t k, std::int64_t n) {
  // f32 is rounded once, from f64.
  using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;
  k %= n;
  const bool is_below = 2 * k > n;  // The conjugate.
  if (is_below) k = n - k;
  const bool is_left = 4 * k > n;                    // Mirrored at the imaginary axis.
  std::int64_t twice = is_left ? n - 2 * k : 2 * k;  // The angle is pi twice / n, up to pi / 2.
  const bool is_steep = 4 * twice > n;               // Mirrored at the diagonal.
  const Wide angle = std::numbers::pi_v<Wide> *
                     (is_steep ? static_cast<Wide>(n - 2 * twice) / 2 : static_cast<Wide>(twice)) /
                     static_cast<Wide>(n);
  Wide cosine = std::cos(angle);
  Wide sine = std::sin(angle);
  if (is_steep) std::swap(cosine, sine);
  return {static_cast<T>(is_left ? -cosine : cosine), static_cast<T>(is_below ? sine : -sine)};
}

template <class T>
void append(std::vector<T>& table, Root<T> root) {
  table.push_back(root.real);
  table.push_back(root.imag);
}

std::vector<std::int64_t> prime_factors(std::int64_t n) {
  std::vector<std::int64_t> primes;
  for (std::int64_t p = 2; p * p <= n; ++p) {
    for (; n % p == 0; n /= p) primes.push_back(p);
  }
  if (n > 1) primes.push_back(n);
  return primes;
}

std::vector<std::int64_t> radices_of(std::int64_t n) {
  std::vector<std::int64_t> radices;
  int twos = 0;
  for (std::int64_t p : prime_factors(n)) {
    if (p == 2) {
      ++twos;
    } else {
      radices.push_back(p);
    }
  }
  std::reverse(radices.begin(), radices.end());
  // Eights, and fours rather than a two.
  for (; twos >= 3 && twos != 4; twos -= 3) radices.push_back(8);
  for (; twos >= 2; twos -= 2) radices.push_back(4);
  if (twos == 1) radices.push_back(2);
  if (radices.empty()) radices.push_back(1);
  return radices;
}

// Vectors that the columns and rows of a matrix take, for the matrix of n elements that takes the fewest; nothing if
// none is wide and high enough.
template <class T>
std::optional<std::pair<std::int64_t, std::int64_t>> split_of(std::int64_t n) {
  constexpr std::int64_t kLanes = 64 / sizeof(T);
  std::optional<std::pair<std::int64_t, std::int64_t>> best;
  std::int64_t fewest = 0;
  for (std::int64_t a = kLeastOfMatrix; a * a <= n; ++a) {
    if (n % a != 0) continue;
    const std::int64_t b = n / a;
    const std::int64_t vectors = a * ((b + kLanes - 1) / kLanes) + b * ((a + kLanes - 1) / kLanes);
    // Of equal ones the one that is nearer to a square.
    if (!best || vectors <= fewest) {
      best = {a, b};
      fewest = vectors;
    }
  }
  return best;
}

// The length of the convolution that takes the least time: products of small primes.
std::int64_t length_of_convolution(std::int64_t least) {
  std::int64_t best = 1;
  while (best < least) best *= 2;
  for (std::int64_t fives = 1; fives < best; fives *= 5) {
    for (std::int64_t threes = fives; threes < best; threes *= 3) {
      std::int64_t m = threes;
      while (m < least) m *= 2;
      // Factors of two take less time than others, and there should be enough of them.
      if (m < best && m % 8 == 0 && m + m / 8 < best + best / 16) best = m;
    }
  }
  return best;
}

template <class Plan>
class PlanCache {
 public:
  std::shared_ptr<const Plan> get(std::int64_t n) {
    {
      const std::scoped_lock lock(mutex_);
      const auto found =
          std::find_if(plans_.begin(), plans_.end(), [&](const Entry& entry) { return entry.first == n; });
      if (found != plans_.end()) {
        plans_.splice(plans_.begin(), plans_, found);
        return plans_.front().second;
      }
    }
    auto plan = std::make_shared<const Plan>(n);
    const std::scoped_lock lock(mutex_);
    plans_.emplace_front(n, plan);
    elements_ += n;
    while (plans_.size() > 1 && (plans_.size() > kMostPlans || elements_ > kMostElements)) {
      elements_ -= plans_.back().first;
      plans_.pop_back();
    }
    return plan;
  }

 private:
  using Entry = std::pair<std::int64_t, std::shared_ptr<const Plan>>;

  std::mutex mutex_;
  std::list<Entry> plans_;  // Those used last come first.
  std::int64_t elements_ = 0;
};

}  // namespace

bool fits_lanes(std::int64_t n) {
  const std::vector<std::int64_t> primes = prime_factors(n);
  return primes.empty() || primes.back() <= kMostRadix;
}

template <class T>
LanesPlan<T>::LanesPlan(std::int64_t count) : n(count) {
  std::int64_t done = 1;
  for (std::int64_t radix : radices_of(n)) {
    FftStep step{.radix = radix, .done = done, .left = n / done / radix, .twiddles = 0, .roots = 0};
    step.twiddles = static_cast<std::int64_t>(table.size());
    if (step.left > 1) {
      for (std::int64_t i = 0; i < step.left; ++i) {
        for (std::int64_t j = 1; j < radix; ++j) append(table, root_of_one<T>(i * j * done, n));
      }
    }
    step.roots = static_cast<std::int64_t>(table.size());
    if (radix % 2 == 1) {
      for (std::int64_t k = 0; k < radix; ++k) {
        const Root<T> root = root_of_one<T>(k, radix);
        append(table, Root<T>{root.real, -root.imag});
      }
    }
    steps.push_back(step);
    done *= radix;
  }
}

template <class T>
LinePlan<T>::LinePlan(std::int64_t count) : n(count) {
  if (!fits_lanes(n)) {
    way = Way::kChirp;
    inner = shared_plan<LinePlan<T>>(length_of_convolution(2 * n - 1));
    const std::int64_t m = inner->n;
    spectrum.assign(static_cast<std::size_t>(2 * m), T{});
    for (std::int64_t j = 0; j < n; ++j) {
      // j^2 modulo 2 n; the square itself may be too large.
      const auto square =
          static_cast<std::int64_t>(static_cast<unsigned __int128>(j) * static_cast<unsigned __int128>(j) %
                                    static_cast<unsigned __int128>(2 * n));
      const Root<T> root = root_of_one<T>(square, 2 * n);
      append(chirp, root);
      for (std::int64_t at : {j, (m - j) % m}) {
        spectrum[static_cast<std::size_t>(2 * at)] = root.real;
        spectrum[static_cast<std::size_t>(2 * at + 1)] = -root.imag;
      }
    }
    FftLines<T>(*inner).transform(spectrum.data(), spectrum.data(), {.count = 1},
                                  {.scale = 1 / static_cast<double>(m)});
    return;
  }
  const auto matrix = n < kLeastSplit ? std::nullopt : split_of<T>(n);
  if (!matrix) {
    way = Way::kLanes;
    columns = shared_plan<LanesPlan<T>>(n);
    return;
  }
  way = Way::kSplit;
  const auto [height, width] = *matrix;
  columns = shared_plan<LanesPlan<T>>(height);
  rows = shared_plan<LanesPlan<T>>(width);
  are_factored = n > kMostTwiddles;
  const std::int64_t wide = are_factored ? kTogether : width;
  for (std::int64_t k = 0; k < height; ++k) {
    for (std::int64_t j = 0; j < wide; ++j) {
      const Root<T> root = root_of_one<T>(j * k, n);
      real_twiddles.push_back(root.real);
      imag_twiddles.push_back(root.imag);
    }
  }
  // Vectors are read whole.
  real_twiddles.resize(real_twiddles.size() + kTogether);
  imag_twiddles.resize(imag_twiddles.size() + kTogether);
  for (std::int64_t j = 0; are_factored && j < width; j += kTogether) {
    for (std::int64_t k = 0; k < height; ++k) append(groups, root_of_one<T>(j * k, n));
  }
}

template <class T>
HalfPlan<T>::HalfPlan(std::int64_t n) {
  for (std::int64_t k = 0; k <= n / 2; ++k) {
    const Root<T> root = root_of_one<T>(k, n);
    real.push_back(root.real);
    imag.push_back(root.imag);
  }
}

template <class Plan>
std::shared_ptr<const Plan> shared_plan(std::int64_t n) {
  static PlanCache<Plan>& cache = *new PlanCache<Plan>;
  return cache.get(n);
}

template struct LanesPlan<float>;
template struct LanesPlan<double>;
template struct LinePlan<float>;
template struct LinePlan<double>;
template struct HalfPlan<float>;
template struct HalfPlan<double>;
template std::shared_ptr<const LanesPlan<float>> shared_plan(std::int64_t);
template std::shared_ptr<const LanesPlan<double>> shared_plan(std::int64_t);
template std::shared_ptr<const LinePlan<float>> shared_plan(std::int64_t);
template std::shared_ptr<const LinePlan<double>> shared_plan(std::int64_t);
template std::shared_ptr<const HalfPlan<float>> shared_plan(std::int64_t);
template std::shared_ptr<const HalfPlan<double>> shared_plan(std::int64_t);

}  // namespace shoal::cpu
