// What the programs of several tests share: how they print results, and how layouts are compared.
#pragma once

#include <gtest/gtest.h>
#include <shoal/distributed.h>
#include <shoal/multihost.h>
#include <shoal/shoal.h>

#include <cstdint>
#include <cstring>
#include <iostream>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "job.h"

namespace shoal::multiprocess {

using Layout = std::vector<int>;  ///< Devices of each process.

/// Eight devices, divided evenly and not.
inline const std::vector<Layout> kEvenLayouts{{4, 4}, {2, 2, 2, 2}};
/// Of a mesh of 2 × 4 or 4 × 2, all processes have the same devices of each row, or none in common.
inline const std::vector<Layout> kLayoutsOfColumns{{4, 4}, {2, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1}};
inline const std::vector<Layout> kLayouts{{4, 4}, {2, 2, 2, 2}, {3, 3, 2}, {1, 1, 1, 1, 1, 1, 1, 1}};

/// All devices of the job, and rows split over them.
inline Mesh everywhere() { return make_mesh({device_count()}, {"x"}); }
inline NamedSharding rows() { return NamedSharding(everywhere(), P("x")); }

/// Prints the shape and bits of a whole array.
inline void print_bits(const std::string& name, const Array& whole) {
  std::uint64_t hash = 14695981039346656037U;
  for (const double element : whole.astype(float64).to_vector<double>()) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &element, sizeof(bits));
    hash = (hash ^ bits) * 1099511628211U;
  }
  std::ostringstream text;
  text << name << " " << to_string(whole.shape()) << " " << std::hex << hash << "\n";
  std::cout << text.str() << std::flush;
}

/// The same of an array that lies in all processes, whose parts each of them gets.
inline void print_all_of(const std::string& name, const Array& array) {
  const Array whole = multihost::process_allgather(array, true);
  print_bits(name, is_complex(whole.dtype()) ? concatenate({real(whole), imag(whole)}) : whole);
}

/// Numbers that sums do not come out even of.
inline Array numbers(const Shape& shape) {
  return sin(arange(static_cast<double>(num_elements(shape))).astype(float32)).reshape(shape);
}

/// The program prints the same in all processes of all layouts, over shared memory and sockets, as in one process.
/// Those of the layouts have so many threads.
inline void expect_same(const std::string& program, const std::vector<Layout>& layouts, int threads = 1) {
  const int devices = std::accumulate(layouts[0].begin(), layouts[0].end(), 0);
  const std::vector<Outcome> alone = run({program, {devices}});
  ASSERT_EQ(alone[0].code, 0) << alone[0].output;
  ASSERT_FALSE(alone[0].output.empty());
  for (const std::string transport : {"shm", "socket"}) {
    for (const Layout& layout : layouts) {
      const Job job{.program = program,
                    .devices = layout,
                    .env = {{"SHOAL_TRANSPORT", transport}, {"SHOAL_NUM_THREADS", std::to_string(threads)}}};
      for (const Outcome& outcome : run(job)) {
        EXPECT_EQ(outcome.code, 0) << layout.size() << " processes, " << transport;
        EXPECT_EQ(outcome.output, alone[0].output) << layout.size() << " processes, " << transport;
      }
    }
  }
}

/// Says what is thrown, so that a test can look for it: "what: InvalidArgument …".
template <class F>
void tell(const std::string& what, F&& body) {
  std::cout << what << ": ";
  try {
    body();
    std::cout << "nothing" << std::endl;
  } catch (const Disagreement& error) {
    std::cout << "Disagreement " << error.what() << std::endl;
  } catch (const ProcessFailed& error) {
    std::cout << "ProcessFailed " << error.what() << std::endl;
  } catch (const DeadlineExceeded& error) {
    std::cout << "DeadlineExceeded " << error.what() << std::endl;
  } catch (const DistributedError& error) {
    std::cout << "DistributedError " << error.what() << std::endl;
  } catch (const InvalidArgument& error) {
    std::cout << "InvalidArgument " << error.what() << std::endl;
  } catch (const InvalidState& error) {
    std::cout << "InvalidState " << error.what() << std::endl;
  } catch (const std::exception& error) {
    std::cout << "exception " << error.what() << std::endl;
  }
}

/// What a process has printed after "what: ", in that line.
inline std::string told(const Outcome& outcome, const std::string& what) {
  std::istringstream lines(outcome.output);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(what + ": ")) return line.substr(what.size() + 2);
  }
  return "not told: " + outcome.output;
}

}  // namespace shoal::multiprocess
