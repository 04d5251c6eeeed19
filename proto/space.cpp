// SPDX-License-Identifier: Apache-2.0
// space: canonical encoding, validation and identities of a space.
#include "proto/space.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "proto/page_hash.h"
#include "proto/utf8.h"

namespace hc {

namespace {

constexpr std::uint8_t kEncodingVersion = 1;

class Writer {
 public:
  template <typename T>
  void number(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      out_.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
    }
  }
  void text(const std::string& value) {
    number(static_cast<std::uint16_t>(value.size()));
    out_.insert(out_.end(), value.begin(), value.end());
  }
  std::vector<std::uint8_t> take() { return std::move(out_); }

 private:
  std::vector<std::uint8_t> out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  template <typename T>
  T number() {
    if (bytes_.size() < sizeof(T)) {
      ok_ = false;
      return 0;
    }
    T value = 0;
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }
  std::string text() {
    const std::size_t size = number<std::uint16_t>();
    if (!ok_ || bytes_.size() < size) {
      ok_ = false;
      return {};
    }
    std::string value(reinterpret_cast<const char*>(bytes_.data()), size);
    bytes_ = bytes_.subspan(size);
    return value;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && bytes_.empty(); }

 private:
  std::span<const std::uint8_t> bytes_;
  bool ok_ = true;
};

struct Range {
  std::uint64_t low;
  std::uint64_t high;
};

Result<void> check_range(const std::string& field, std::uint64_t value, Range range) {
  if (value >= range.low && value <= range.high) {
    return {};
  }
  return make_error(Code::bad_argument, field + " = " + std::to_string(value) + ": must be " +
                                            std::to_string(range.low) + ".." +
                                            std::to_string(range.high));
}

Result<void> check_text(const std::string& field, const std::string& value, bool may_be_empty) {
  if (value.size() > kNameBytesMax || (value.empty() && !may_be_empty)) {
    return make_error(Code::bad_argument,
                      field + " has " + std::to_string(value.size()) + " bytes: must be " +
                          (may_be_empty ? "0.." : "1..") + std::to_string(kNameBytesMax));
  }
  const bool printable = std::all_of(value.begin(), value.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != 0x7F;
  });
  if (!printable) {
    return make_error(Code::bad_argument, field + " holds a control character");
  }
  if (!is_utf8(value)) {
    return make_error(Code::bad_argument, field + " is not UTF-8");
  }
  return {};
}

Result<void> validate_kind(const KindSpec& kind, std::size_t index) {
  const std::string field = "kinds[" + std::to_string(index) + "]";
  HC_TRY_VOID(check_text(field + ".name", kind.name, false));
  HC_TRY_VOID(check_range(field + ".payload_bytes", kind.payload_bytes, {1, kPayloadBytesMax}));
  HC_TRY_VOID(check_range(field + ".placement", static_cast<std::uint8_t>(kind.placement), {0, 2}));
  HC_TRY_VOID(check_range(field + ".policy", static_cast<std::uint8_t>(kind.policy), {0, 1}));
  const bool trailing = kind.policy == HitPolicy::trailing;
  return check_range(field + ".trailing_pages", kind.trailing_pages,
                     trailing ? Range{1, kPagesPerOpMax} : Range{0, 0});
}

}  // namespace

const char* placement_name(Placement placement) {
  switch (placement) {
    case Placement::replicated: return "replicated";
    case Placement::sharded: return "sharded";
    case Placement::owned: return "owned";
  }
  return "unknown";
}

Result<Placement> parse_placement(const std::string& name) {
  for (const auto placement : {Placement::replicated, Placement::sharded, Placement::owned}) {
    if (name == placement_name(placement)) {
      return placement;
    }
  }
  return make_error(Code::bad_argument,
                    "placement = '" + name + "': must be replicated, sharded or owned");
}

Result<void> validate_space(const SpaceDescriptor& space) {
  HC_TRY_VOID(check_text("tenant", space.tenant, true));
  HC_TRY_VOID(check_text("model", space.model, false));
  HC_TRY_VOID(check_text("revision", space.revision, true));
  HC_TRY_VOID(check_text("weight_version", space.weight_version, true));
  HC_TRY_VOID(check_text("dtype", space.dtype, true));
  HC_TRY_VOID(check_text("packing", space.packing, true));
  HC_TRY_VOID(check_text("layout", space.layout, true));
  HC_TRY_VOID(check_text("hash_scheme", space.hash_scheme, true));
  HC_TRY_VOID(check_range("page_tokens", space.page_tokens, {1, kPageTokensMax}));
  HC_TRY_VOID(check_range("world.tensor", space.world.tensor, {1, kWorldMax}));
  HC_TRY_VOID(check_range("world.pipeline", space.world.pipeline, {1, kWorldMax}));
  HC_TRY_VOID(check_range("world.context", space.world.context, {1, kWorldMax}));
  HC_TRY_VOID(check_range("world (tensor * pipeline * context)", space.world.shards(),
                          {1, kWorldMax}));
  HC_TRY_VOID(check_range("number of kinds", space.kinds.size(), {1, kKindsMax}));
  std::size_t parts = 0;
  for (std::size_t i = 0; i < space.kinds.size(); ++i) {
    HC_TRY_VOID(validate_kind(space.kinds[i], i));
    for (std::size_t j = 0; j < i; ++j) {
      if (space.kinds[j].name == space.kinds[i].name) {
        return make_error(Code::bad_argument, "kinds: the name '" + space.kinds[i].name +
                                                  "' stands twice");
      }
    }
    parts += space.kinds[i].placement == Placement::replicated ? 1 : space.world.shards();
  }
  return check_range("parts (shards of all kinds)", parts, {1, kPartsMax});
}

std::vector<std::uint8_t> encode_space(const SpaceDescriptor& space) {
  Writer out;
  out.number(kEncodingVersion);
  for (const std::string* text : {&space.tenant, &space.model, &space.revision,
                                  &space.weight_version, &space.dtype, &space.packing,
                                  &space.layout, &space.hash_scheme}) {
    out.text(*text);
  }
  out.number(space.page_tokens);
  out.number(static_cast<std::uint8_t>(space.bigram));
  out.number(space.world.tensor);
  out.number(space.world.pipeline);
  out.number(space.world.context);
  out.number(static_cast<std::uint16_t>(space.kinds.size()));
  for (const KindSpec& kind : space.kinds) {
    out.text(kind.name);
    out.number(kind.payload_bytes);
    out.number(static_cast<std::uint8_t>(kind.placement));
    out.number(static_cast<std::uint8_t>(kind.policy));
    out.number(kind.trailing_pages);
  }
  return out.take();
}

Result<SpaceDescriptor> decode_space(std::span<const std::uint8_t> bytes) {
  Reader in(bytes);
  SpaceDescriptor space;
  if (in.number<std::uint8_t>() != kEncodingVersion) {
    return make_error(Code::bad_argument, "space descriptor: unknown encoding version");
  }
  for (std::string* text : {&space.tenant, &space.model, &space.revision, &space.weight_version,
                            &space.dtype, &space.packing, &space.layout, &space.hash_scheme}) {
    *text = in.text();
  }
  space.page_tokens = in.number<std::uint32_t>();
  const auto bigram = in.number<std::uint8_t>();
  space.bigram = bigram == 1;
  space.world.tensor = in.number<std::uint16_t>();
  space.world.pipeline = in.number<std::uint16_t>();
  space.world.context = in.number<std::uint16_t>();
  const auto kinds = in.number<std::uint16_t>();
  if (!in.ok() || bigram > 1 || kinds > kKindsMax) {
    return make_error(Code::bad_argument, "space descriptor: cut short or out of range");
  }
  for (std::uint16_t i = 0; i < kinds; ++i) {
    KindSpec kind;
    kind.name = in.text();
    kind.payload_bytes = in.number<std::uint32_t>();
    kind.placement = static_cast<Placement>(in.number<std::uint8_t>());
    kind.policy = static_cast<HitPolicy>(in.number<std::uint8_t>());
    kind.trailing_pages = in.number<std::uint32_t>();
    space.kinds.push_back(std::move(kind));
  }
  if (!in.at_end()) {
    return make_error(Code::bad_argument, "space descriptor: wrong length");
  }
  HC_TRY_VOID(validate_space(space));
  return space;
}

SpaceId make_space_id(const SpaceDescriptor& space) {
  return SpaceId{sha256(encode_space(space))};
}

FamilyId make_family_id(SpaceDescriptor space) {
  space.weight_version.clear();
  return FamilyId{sha256(encode_space(space))};
}

std::uint32_t make_space_tag(const SpaceId& space, std::uint16_t shard) {
  std::array<std::uint8_t, 34> bytes{};
  std::copy(space.bytes.begin(), space.bytes.end(), bytes.begin());
  bytes[32] = static_cast<std::uint8_t>(shard & 0xFF);
  bytes[33] = static_cast<std::uint8_t>(shard >> 8);
  const auto digest = sha256(bytes);
  std::uint32_t tag = 0;
  std::memcpy(&tag, digest.data(), sizeof tag);
  return tag;
}

Result<std::uint16_t> shard_of(const WorldSizes& world, const ShardCoordinates& at) {
  HC_TRY_VOID(check_range("coordinates.tensor", at.tensor, {0, world.tensor - 1ULL}));
  HC_TRY_VOID(check_range("coordinates.pipeline", at.pipeline, {0, world.pipeline - 1ULL}));
  HC_TRY_VOID(check_range("coordinates.context", at.context, {0, world.context - 1ULL}));
  const std::uint32_t shard =
      (std::uint32_t{at.pipeline} * world.context + at.context) * world.tensor + at.tensor;
  return static_cast<std::uint16_t>(shard);
}

std::vector<PartSpec> parts_of(const SpaceDescriptor& space) {
  std::vector<PartSpec> parts;
  for (std::size_t kind = 0; kind < space.kinds.size(); ++kind) {
    const auto number = static_cast<std::uint16_t>(kind);
    if (space.kinds[kind].placement == Placement::replicated) {
      parts.push_back({number, kShardReplicated});
      continue;
    }
    for (std::uint32_t shard = 0; shard < space.world.shards(); ++shard) {
      parts.push_back({number, static_cast<std::uint16_t>(shard)});
    }
  }
  return parts;
}

std::uint32_t part_index(const SpaceDescriptor& space, std::uint16_t kind, std::uint16_t shard) {
  HC_CHECK(kind < space.kinds.size());
  std::uint32_t index = 0;
  for (std::uint16_t i = 0; i < kind; ++i) {
    index += space.kinds[i].placement == Placement::replicated ? 1 : space.world.shards();
  }
  if (space.kinds[kind].placement == Placement::replicated) {
    return index;
  }
  HC_CHECK(shard < space.world.shards());
  return index + shard;
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::uint8_t byte : bytes) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 0xF]);
  }
  return text;
}

}  // namespace hc
