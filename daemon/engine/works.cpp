// SPDX-License-Identifier: Apache-2.0
// works: the tables that come with families.
#include "daemon/engine/works.h"

namespace hc {

void Works::open_catalog() {
  if (!core.spaces->bound()) {
    return;
  }
  if (core.catalog == nullptr) {
    core.catalog = std::make_unique<Catalog>();
  }
  for (std::uint16_t number = core.catalog->families(); number < core.spaces->family_count();
       ++number) {
    const Family& family = core.spaces->family(FamilyNo{number});
    core.catalog->add_family(family.pages_max, static_cast<std::uint32_t>(family.parts.size()));
  }
  admission.open();
  for (std::uint16_t id = 0; id < core.spaces->slabs().count(); ++id) {
    core.slot_order.add_slab(SlabId{id}, core.spaces->slabs().slab(SlabId{id}));
  }
}

}  // namespace hc
