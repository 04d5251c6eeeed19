// SPDX-License-Identifier: Apache-2.0
// thread_roles: which thread may call a function or touch a member. clang checks it with
// -Wthread-safety (preset roles); to other compilers these words are nothing.
//
// A role is a capability that a thread takes at its start and keeps: RoleScope in its first
// function. Whoever calls a function of a role has the role or names it too. Data that goes to a
// helper with a request and back with its result has no owner that a compiler could check: the
// file that hands it over says how.
#pragma once

#if defined(__clang__)
#define HC_ROLE_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define HC_ROLE_ATTRIBUTE(attribute)
#endif

namespace hc {

class HC_ROLE_ATTRIBUTE(capability("role")) ThreadRole {};

inline constexpr ThreadRole kReactorRole;    // owns all state
inline constexpr ThreadRole kCommitterRole;  // writes the index
inline constexpr ThreadRole kCopierRole;     // touches client memory
inline constexpr ThreadRole kDisposerRole;   // destroys what may block
inline constexpr ThreadRole kIoWorkerRole;   // blocking transfers of the threads back end

class HC_ROLE_ATTRIBUTE(scoped_lockable) RoleScope {
 public:
  explicit RoleScope(const ThreadRole& role) HC_ROLE_ATTRIBUTE(acquire_capability(role)) {
    static_cast<void>(role);
  }
  RoleScope(const RoleScope&) = delete;
  RoleScope& operator=(const RoleScope&) = delete;
  ~RoleScope() HC_ROLE_ATTRIBUTE(release_capability()) {}
};

}  // namespace hc

#define HC_REACTOR HC_ROLE_ATTRIBUTE(requires_capability(::hc::kReactorRole))
#define HC_COMMITTER HC_ROLE_ATTRIBUTE(requires_capability(::hc::kCommitterRole))
#define HC_COPIER HC_ROLE_ATTRIBUTE(requires_capability(::hc::kCopierRole))
#define HC_DISPOSER HC_ROLE_ATTRIBUTE(requires_capability(::hc::kDisposerRole))
#define HC_IO_WORKER HC_ROLE_ATTRIBUTE(requires_capability(::hc::kIoWorkerRole))
#define HC_OWNED_BY_REACTOR HC_ROLE_ATTRIBUTE(guarded_by(::hc::kReactorRole))
