// SPDX-License-Identifier: Apache-2.0
// admin_report: what the daemon says of itself, as JSON.
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "daemon/admin/admin_server.h"
#include "proto/thread_roles.h"
#include "proto/versions.h"

namespace hc {

namespace {

using Json = nlohmann::ordered_json;

// Texts in a report come from clients; one that is no UTF-8 must not stop the daemon.
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

HC_REACTOR
const char* state_name(const Engine& engine, const AdminFacts& facts) {
  if (facts.stopping()) {
    return "stopping";
  }
  switch (engine.state()) {
    case EngineState::closed: return "closed";
    case EngineState::holding: return "holding";
    case EngineState::loading: return "loading";
    case EngineState::serving: return "serving";
  }
  return "unknown";
}

Json load_json(const LoadProgress& load) {
  return {{"slots_total", load.slots_total}, {"slots_scanned", load.slots_scanned},
          {"live", load.live},               {"dropped", load.dropped},
          {"rows_damaged", load.rows_damaged}, {"pages", load.pages},
          {"rebuilding", load.rebuilding},   {"adopted", load.adopted}};
}

Json session_json(const SessionLine& line) {
  return {{"session", line.session}, {"group", line.group},   {"rank", line.rank},
          {"world", line.world},     {"pid", line.pid},       {"shard", line.shard},
          {"ops", line.ops},         {"leases", line.leases}, {"leased_pages", line.leased_pages},
          {"quota_pages", line.quota_pages}, {"regions", line.regions}, {"state", line.state},
          {"board", line.board},     {"transfer", line.transfer}};
}

Json direction_json(const CudaDeviceLine::Direction& way) {
  return {{"copies", way.copies},
          {"bytes", way.bytes},
          {"batches", way.batches},
          {"batches_piece_by_piece", way.single},
          {"failures", way.failures}};
}

// What copies of ours have to do with; a rank's own are its own.
Json gpu_json(const AdminFacts& facts) {
  const GpuLine gpu = facts.gpu();
  Json devices = Json::array();
  for (const CudaDeviceLine& line : gpu.devices) {
    devices.push_back({{"uuid", line.uuid},
                       {"name", line.name},
                       {"pci", line.pci},
                       {"lost", line.lost},
                       {"context_bytes", line.context_bytes},
                       {"out", direction_json(line.out)},
                       {"in", direction_json(line.in)}});
  }
  return {{"transfer", gpu.transfer},
          {"allocations_open", gpu.allocations},
          {"registered_bytes", gpu.registered_bytes},
          {"devices", devices}};
}

Json quotas_json(const QuotaTable& quotas) {
  Json out = Json::array();
  for (const auto& group : quotas.groups()) {
    out.push_back({{"group", group->name},
                   {"family", group->family.value},
                   {"sessions", group->sessions},
                   {"quota_pages", group->pages},
                   {"owners", group->leased.size()},
                   {"reserved_pages", group->l2_pages},
                   {"leased_pages", group->leased_pages()}});
  }
  return out;
}

struct SpacePages {
  std::uint64_t resident = 0;
  std::uint64_t durable = 0;
};

// By space number, in one pass over the catalog.
std::vector<SpacePages> count_pages(const Catalog& catalog, std::size_t spaces) {
  std::vector<SpacePages> counts(spaces);
  for (std::uint32_t id = 0; id < catalog.pages_max(); ++id) {
    const Page& page = catalog.page(PageId{id});
    if (!page.in_use || page.doomed || page.space.value >= spaces) {
      continue;
    }
    bool any_durable = false;
    const std::uint32_t parts = catalog.parts_per_page(PageId{id});
    for (std::uint32_t part = 0; part < parts && !any_durable; ++part) {
      any_durable = catalog.part(catalog.ref(PageId{id}, part)).l3 == L3State::durable;
    }
    counts[page.space.value].resident += catalog.has_resident_part(PageId{id}) ? 1U : 0U;
    counts[page.space.value].durable += any_durable ? 1U : 0U;
  }
  return counts;
}

HC_REACTOR
Json space_json(Engine& engine, const Space& space, const SpacePages& counts) {
  const SpaceDescriptor& at = space.descriptor;
  Json kinds = Json::array();
  for (const KindSpec& kind : at.kinds) {
    kinds.push_back({{"name", kind.name},
                     {"payload_bytes", kind.payload_bytes},
                     {"placement", placement_name(kind.placement)},
                     {"policy", kind.policy == HitPolicy::trailing ? "trailing" : "all_pages"},
                     {"trailing_pages", kind.trailing_pages}});
  }
  const auto& epochs = engine.core().superblock->current().spaces;
  return {{"number", space.number.value},
          {"space_id", to_hex(space.id.bytes)},
          {"family", space.family.value},
          {"tenant", at.tenant},
          {"model", at.model},
          {"revision", at.revision},
          {"weight_version", at.weight_version},
          {"world", at.world.shards()},
          {"page_tokens", at.page_tokens},
          {"epoch", epochs[space.number.value].epoch},
          {"kinds", kinds},
          {"pages", space.pages},
          {"resident_pages", counts.resident},
          {"durable_pages", counts.durable}};
}

}  // namespace

Result<AdminRequest> parse_admin_request(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("verb") || !json["verb"].is_string()) {
    return make_error(Code::bad_argument, "request: must be a JSON object with a text 'verb'");
  }
  AdminRequest out;
  for (const auto& [key, value] : json.items()) {
    if (key == "timeout_ms" && value.is_number_unsigned()) {
      out.timeout_ms = value.get<std::uint64_t>();
    } else if (key == "from" && value.is_number_unsigned()) {
      out.from = value.get<std::uint64_t>();
    } else if (key == "verb" && value.is_string()) {
      out.verb = value.get<std::string>();
    } else if (key == "mode" && value.is_string()) {
      out.mode = value.get<std::string>();
    } else if (key == "space" && value.is_string()) {
      out.space = value.get<std::string>();
    } else {
      return make_error(Code::bad_argument,
                        "request: field '" + key + "' is unknown or has a wrong type");
    }
  }
  return out;
}

std::string report_version() {
  return text_of({{"version", kProductVersion},
                  {"protocol", kProtocolVersion},
                  {"disk_version", kDiskVersion},
                  {"fingerprint", std::to_string(layout_fingerprint())},
                  {"pid", ::getpid()}});
}

std::string report_dropped(std::uint64_t pages) { return text_of({{"pages_dropped", pages}}); }

std::uint64_t budget_bytes(const Core& core) {
  const std::vector<std::uint64_t> volumes = core.options.spaces.volumes();
  return std::accumulate(volumes.begin(), volumes.end(), std::uint64_t{0});
}

// What of a volume is not asked any more until a probe has been answered.
const char* failed_name(const VolumeHealth& health) {
  return health.failed(IoDirection::read) ? "all" : health.well() ? "" : "writes";
}

Json volumes_json(const Core& core, const AdminFacts& facts) {
  Json out = Json::array();
  for (std::uint16_t volume = 0;
       core.spaces != nullptr && volume < core.spaces->slabs().volume_count(); ++volume) {
    const StepLedger& ledger = core.spaces->slabs().ledger(volume);
    out.push_back({{"volume", volume},
                   {"dir", volume < facts.volumes.size() ? facts.volumes[volume] : ""},
                   {"budget_bytes", ledger.budget_bytes()},
                   {"allocated_bytes", ledger.charged_bytes()},
                   {"failed", failed_name(core.io.health(volume))}});
  }
  return out;
}

std::string report_status(Engine& engine, const AdminFacts& facts, Instant now) {
  const StatsReply stats = engine.stats();
  Json sessions = Json::array();
  for (const SessionLine& line : facts.sessions()) {
    sessions.push_back(session_json(line));
  }
  const Core& core = engine.core();
  const bool bound = core.spaces != nullptr && core.spaces->bound();
  return text_of(
             {{"version", kProductVersion},
              {"pid", ::getpid()},
              {"instance", facts.instance},
              {"uptime_ms", (now - facts.started) / kNsPerMs},
              {"state", state_name(engine, facts)},
              {"cold_start", facts.cold_start},
              {"disk_backend", facts.disk_backend},
              {"volume", facts.volumes.empty() ? "" : facts.volumes.front()},
              {"load", load_json(engine.load_progress())},
              {"families", core.spaces != nullptr ? core.spaces->family_count() : 0},
              {"l2",
               {{"bytes", bound ? core.spaces->arena_bytes() : 0},
                {"frames_total", stats.frames_total},
                {"frames_free", stats.frames_free}}},
              {"l3",
               {{"budget_bytes", budget_bytes(core)},
                {"allocated_bytes", bound ? core.spaces->slabs().allocated_bytes() : 0},
                {"steps_moved", core.counters.steps_moved},
                {"volumes", volumes_json(core, facts)},
                {"slots_total", stats.slots_total},
                {"slots_free", stats.slots_free},
                {"slots_set_aside", engine.slots_quarantined()},
                {"index_failed", engine.index_failed()},
                {"spill_policy", spill_policy_name(engine.core().options.spill.policy)},
                {"dirty_bytes", engine.bytes_held_back()}}},
              {"gpu", gpu_json(facts)},
              {"quotas", quotas_json(core.quotas)},
              {"sessions", sessions}});
}

std::string report_stats(Engine& engine) {
  const StatsReply stats = engine.stats();
  const Counters& counters = engine.core().counters;
  Json out;
#define HC_COUNTER_JSON(name, meaning) out[#name] = counters.name;
  HC_ENGINE_COUNTERS(HC_COUNTER_JSON)
#undef HC_COUNTER_JSON
  out["pages"] = stats.pages;
  out["resident_parts"] = stats.resident_parts;
  out["written_parts"] = stats.written_parts;
  out["durable_parts"] = stats.durable_parts;
  out["frames_total"] = stats.frames_total;
  out["frames_free"] = stats.frames_free;
  out["frames_leased"] = stats.frames_leased;
  out["slots_total"] = stats.slots_total;
  out["slots_free"] = stats.slots_free;
  out["oldest_undurable_ms"] = stats.oldest_undurable_ms;
  const Catalog* catalog = engine.core().catalog.get();
  out["dirty_pages"] = catalog == nullptr ? 0 : catalog->pages_held_back();
  out["dirty_bytes"] = engine.bytes_held_back();
  out["operations_open"] = engine.core().ops.active().size();
  Json verify;
  for (std::size_t i = 1; i < kBlobVerdicts; ++i) {
    verify[blob_verdict_name(static_cast<BlobVerdict>(i))] = counters.verify[i];
  }
  out["verify"] = verify;
  return text_of(out);
}

std::string report_spaces(Engine& engine, std::uint64_t from) {
  Json answer{{"spaces", Json::array()}};
  if (engine.core().catalog == nullptr) {
    return text_of(answer);
  }
  const auto counts = count_pages(*engine.core().catalog, kSpaceEpochsMax);
  std::vector<const Space*> wanted;
  for (const Space* space : engine.core().spaces->all()) {
    if (space->number.value >= from) {
      wanted.push_back(space);
    }
  }
  std::sort(wanted.begin(), wanted.end(), [](const Space* a, const Space* b) {
    return a->number.value < b->number.value;
  });
  for (std::size_t i = 0; i < std::min(wanted.size(), kSpacesPerAnswer); ++i) {
    answer["spaces"].push_back(space_json(engine, *wanted[i], counts[wanted[i]->number.value]));
  }
  if (wanted.size() > kSpacesPerAnswer) {
    answer["next"] = wanted[kSpacesPerAnswer]->number.value;
  }
  return text_of(answer);
}

}  // namespace hc
