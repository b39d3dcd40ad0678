#include "shoal/mesh_context.h"

#include <utility>

namespace shoal {
namespace {

thread_local Mesh current;

}  // namespace

void set_mesh(const Mesh& mesh) { current = mesh; }

Mesh get_mesh() { return current; }

use_mesh::use_mesh(const Mesh& mesh) : before_(std::exchange(current, mesh)) {}

use_mesh::~use_mesh() { current = std::move(before_); }

}  // namespace shoal
