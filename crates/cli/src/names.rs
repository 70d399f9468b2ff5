//! Name lookup of a program that is linked statically.

/// Looks names up in /etc/hosts and by DNS, whatever /etc/nsswitch.conf says. Its other modules,
/// such as `resolve` and `myhostname`, are built for the C library of the system: loaded into a
/// static program with another version of it, they end it by SIGFPE (Debian 13) or SIGABRT (11).
pub fn use_built_in_lookup() {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    {
        use std::ffi::{c_char, c_int};

        unsafe extern "C" {
            /// `nss.h` of the GNU C Library.
            fn __nss_configure_lookup(database: *const c_char, modules: *const c_char) -> c_int;
        }
        // SAFETY: both are C strings, and no other thread runs yet. `hosts` is always known.
        unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
    }
}
