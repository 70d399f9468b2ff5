//! Programs that an emulator runs on a kernel of another architecture.

use super::HostSources;

/// Since Linux 6.1.
pub(super) const KERNEL_ARCHITECTURE: &str = "/proc/sys/kernel/arch";

/// Where it shows that this program is of another architecture than the kernel: QEMU's user mode
/// changes uname(2), and passes most of /proc through. Its kernel may run on a machine without
/// emulation, which has another id.
pub(super) fn user_mode(sources: &HostSources) -> Option<&'static str> {
    let kernel = sources.tree.line(KERNEL_ARCHITECTURE).filter(|_| sources.live);
    is_foreign(kernel.as_deref(), std::env::consts::ARCH).then_some(KERNEL_ARCHITECTURE)
}

fn is_foreign(kernel: Option<&str>, program: &str) -> bool {
    kernel.is_some_and(|kernel| kernel != program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_of_another_architecture_than_its_kernel_is_emulated() {
        assert!(is_foreign(Some("x86_64"), "aarch64"));
        assert!(!is_foreign(Some("aarch64"), "aarch64"));
        // Before Linux 6.1, or without /proc.
        assert!(!is_foreign(None, "aarch64"));
    }
}
