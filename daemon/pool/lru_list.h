// SPDX-License-Identifier: Apache-2.0
// lru_list: numbers in order of last access, newest at the front, in one preallocated table.
//
// Owner: the reactor thread.
// Invariants: a number stands in the list at most once; every link has its counterpart.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/check.h"
#include "proto/ids.h"

namespace hc {

class LruList {
 public:
  explicit LruList(std::uint32_t numbers_max) : links_(numbers_max) {}

  bool contains(std::uint32_t number) const { return links_[number].in_list; }
  bool empty() const { return newest_ == kNone32; }
  std::uint32_t size() const { return size_; }
  std::uint32_t newest() const { return newest_; }
  std::uint32_t oldest() const { return oldest_; }
  std::uint32_t newer_than(std::uint32_t number) const { return links_[number].newer; }
  std::uint32_t older_than(std::uint32_t number) const { return links_[number].older; }

  void push_newest(std::uint32_t number) { insert_before(number, newest_); }

  // Puts `number` right behind (older than) `newer`; kNone32 puts it at the front.
  void insert_older_than(std::uint32_t number, std::uint32_t newer) {
    insert_before(number, newer == kNone32 ? newest_ : links_[newer].older);
  }

  void remove(std::uint32_t number) {
    Link& link = links_[number];
    HC_CHECK(link.in_list);
    HC_CHECK(size_ > 0);
    (link.newer == kNone32 ? newest_ : links_[link.newer].older) = link.older;
    (link.older == kNone32 ? oldest_ : links_[link.older].newer) = link.newer;
    link = Link{};
    --size_;
  }

  void move_to_newest(std::uint32_t number) {
    if (newest_ != number) {
      remove(number);
      push_newest(number);
    }
  }

  void clear() {
    links_.assign(links_.size(), Link{});
    newest_ = oldest_ = kNone32;
    size_ = 0;
  }

 private:
  struct Link {
    std::uint32_t newer = kNone32;
    std::uint32_t older = kNone32;
    bool in_list = false;
  };

  // `older` is the number that will stand behind; kNone32 puts it at the back.
  void insert_before(std::uint32_t number, std::uint32_t older) {
    Link& link = links_[number];
    HC_CHECK(!link.in_list);
    link.in_list = true;
    link.older = older;
    link.newer = older == kNone32 ? oldest_ : links_[older].newer;
    (link.newer == kNone32 ? newest_ : links_[link.newer].older) = number;
    (older == kNone32 ? oldest_ : links_[older].newer) = number;
    ++size_;
  }

  std::vector<Link> links_;
  std::uint32_t newest_ = kNone32;
  std::uint32_t oldest_ = kNone32;
  std::uint32_t size_ = 0;
};

}  // namespace hc
