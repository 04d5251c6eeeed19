// SPDX-License-Identifier: Apache-2.0
// ledger: what a daemon owes its clients: pages that must be there, and pages that must not.
//
// Owner thread: one. Invariant: no page is owed and gone.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "e2e/rank.h"

namespace hc::test {

class Ledger {
 public:
  using Page = std::pair<std::string, std::uint64_t>;  // weights, number

  // A store has been ordered: the pages may be there from now on, whatever becomes of it.
  void ordered(const std::string& weights, const Keys& keys) {
    for (std::uint32_t i = 0; i < keys.count; ++i) {
      known_.insert({weights, keys.first + i});
      gone_.erase({weights, keys.first + i});
    }
  }
  // Acknowledged as durable, and nothing may take them.
  void durable(const std::string& weights, const Keys& keys) {
    for (std::uint32_t i = 0; i < keys.count; ++i) {
      owed_.insert({weights, keys.first + i});
    }
  }
  // From an order on pages may be gone; with its acknowledgement they are.
  void may_go(const std::string& weights, const Keys& keys) {
    for (std::uint32_t i = 0; i < keys.count; ++i) {
      owed_.erase({weights, keys.first + i});
    }
  }
  void gone(const std::string& weights, const Keys& keys) {
    for (std::uint32_t i = 0; i < keys.count; ++i) {
      gone_.insert({weights, keys.first + i});
    }
  }
  void may_go(const std::string& weights) {
    std::erase_if(owed_, [&](const Page& page) { return page.first == weights; });
  }
  void gone(const std::string& weights) {
    for (const Page& page : known_) {
      if (page.first == weights) {
        gone_.insert(page);
      }
    }
  }
  void may_go() { owed_.clear(); }
  void all_gone() { gone_ = known_; }

  bool is_owed(const Page& page) const { return owed_.count(page) != 0; }
  bool is_gone(const Page& page) const { return gone_.count(page) != 0; }
  const std::set<Page>& known() const { return known_; }

 private:
  std::set<Page> known_;
  std::set<Page> owed_;
  std::set<Page> gone_;
};

}  // namespace hc::test
