// SPDX-License-Identifier: Apache-2.0
// lru_list: numbers in order of last access, newest at the front, in one preallocated table.
//
// Owner: the reactor thread.
// Invariants: a number stands in the list at most once; every link has its counterpart.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "proto/check.h"
#include "proto/ids.h"

namespace hc {

class LruList {
 public:
  // For the numbers first .. first + count - 1.
  explicit LruList(std::uint32_t count, std::uint32_t first = 0) : first_(first), links_(count) {}
  // Room for more numbers behind; the order stays.
  void grow(std::uint32_t count) { links_.resize(std::max<std::size_t>(links_.size(), count)); }

  bool contains(std::uint32_t number) const { return at(number).in_list; }
  bool empty() const { return newest_ == kNone32; }
  std::uint32_t size() const { return size_; }
  std::uint32_t newest() const { return newest_; }
  std::uint32_t oldest() const { return oldest_; }
  std::uint32_t newer_than(std::uint32_t number) const { return at(number).newer; }
  std::uint32_t older_than(std::uint32_t number) const { return at(number).older; }

  void push_newest(std::uint32_t number) { insert_before(number, newest_); }

  // Puts `number` right behind (older than) `newer`; kNone32 puts it at the front.
  void insert_older_than(std::uint32_t number, std::uint32_t newer) {
    insert_before(number, newer == kNone32 ? newest_ : at(newer).older);
  }

  void remove(std::uint32_t number) {
    Link& link = at(number);
    HC_CHECK(link.in_list);
    HC_CHECK(size_ > 0);
    (link.newer == kNone32 ? newest_ : at(link.newer).older) = link.older;
    (link.older == kNone32 ? oldest_ : at(link.older).newer) = link.newer;
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
    Link& link = at(number);
    HC_CHECK(!link.in_list);
    link.in_list = true;
    link.older = older;
    link.newer = older == kNone32 ? oldest_ : at(older).newer;
    (link.newer == kNone32 ? newest_ : at(link.newer).older) = number;
    (older == kNone32 ? oldest_ : at(older).newer) = number;
    ++size_;
  }

  Link& at(std::uint32_t number) {
    HC_CHECK(number - first_ < links_.size());
    return links_[number - first_];
  }
  const Link& at(std::uint32_t number) const {
    HC_CHECK(number - first_ < links_.size());
    return links_[number - first_];
  }

  std::uint32_t first_;
  std::vector<Link> links_;
  std::uint32_t newest_ = kNone32;
  std::uint32_t oldest_ = kNone32;
  std::uint32_t size_ = 0;
};

}  // namespace hc
