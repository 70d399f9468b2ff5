//! Children that this process did not start.

/// Reaps the ended children of the calling thread, and no others. To the first thread of the first
/// process of a PID namespace the kernel gives all processes that lose their parent; what another
/// thread starts is left to that thread.
pub fn reap_adopted() {
    const OWN: libc::c_int = libc::WNOHANG | libc::__WNOTHREAD;
    // SAFETY: no status is asked for.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), OWN) } > 0 {}
}
