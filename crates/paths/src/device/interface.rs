//! The structures and calls of `kmod/uapi/fathom.h`. A test compares them with that header.

use rustix::ioctl::{Opcode, opcode};

pub(super) const VERSION: u32 = 1;
/// Pages of the largest window.
pub(super) const WINDOW_PAGES_MAX: usize = 4096;

const GROUP: u8 = 0xfa;
pub(super) const HELLO: Opcode = opcode::read_write::<Hello>(GROUP, 0x00);
pub(super) const ATTACH: Opcode = opcode::write::<Attach>(GROUP, 0x04);
pub(super) const DETACH: Opcode = opcode::none(GROUP, 0x05);
pub(super) const WINDOW: Opcode = opcode::write::<Pages>(GROUP, 0x07);
pub(super) const SEND: Opcode = opcode::write::<InterfacePart>(GROUP, 0x08);
pub(super) const RECEIVE: Opcode = opcode::write::<InterfacePart>(GROUP, 0x09);
pub(super) const PTE: Opcode = opcode::read_write::<Pte>(GROUP, 0x0b);

/// `FATHOM_STRUCT_BYTES`: with the structures that are not used here.
pub(super) const STRUCT_BYTES: usize = size_of::<Hello>()
    + ENDPOINT_BYTES
    + size_of::<Attach>()
    + FRAME_BYTES
    + size_of::<Pages>()
    + size_of::<InterfacePart>()
    + FINISH_BYTES
    + size_of::<Pte>()
    + STATS_BYTES;
const ENDPOINT_BYTES: usize = 32;
const FRAME_BYTES: usize = 16;
const FINISH_BYTES: usize = 8;
const STATS_BYTES: usize = 56;

/// `struct fathom_hello`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hello {
    pub(super) version: u32,
    pub(super) struct_bytes: u32,
    pub(super) role: u32,
    pub(super) page_bytes: u32,
    pub(super) window_pages_max: u32,
    pub(super) timeout_ms_default: u32,
    pub(super) timeout_ms_max: u32,
    pub(super) reserved: u32,
}

/// `struct fathom_attach`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attach {
    pub(super) fd: i32,
    pub(super) reserved: u32,
}

/// `struct fathom_window`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pages {
    pub(super) pages: u32,
    pub(super) reserved: u32,
}

/// `struct fathom_transfer`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InterfacePart {
    pub(super) offset: u32,
    pub(super) length: u32,
    pub(super) timeout_ms: u32,
    pub(super) reserved: u32,
}

/// `struct fathom_pte`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pte {
    pub(super) address: u64,
    pub(super) entry: u64,
    pub(super) page_bytes: u64,
    pub(super) level: u32,
    pub(super) flags: u32,
    pub(super) levels: u32,
    pub(super) reserved: u32,
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::mem::offset_of;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::device::flag;

    /// What is compared: an expression of C, and its value here.
    fn values() -> Vec<(String, u64)> {
        let mut all = Vec::new();
        let mut add = |text: &str, value: u64| all.push((text.to_owned(), value));
        macro_rules! structure {
            ($c:literal, $rust:ty, $($field:ident),+) => {
                add(concat!("sizeof(struct fathom_", $c, ")"), size_of::<$rust>() as u64);
                $(add(
                    concat!("offsetof(struct fathom_", $c, ", ", stringify!($field), ")"),
                    offset_of!($rust, $field) as u64,
                );)+
            };
        }
        structure!("hello", Hello, version, struct_bytes, role, page_bytes, window_pages_max);
        structure!("hello", Hello, timeout_ms_default, timeout_ms_max, reserved);
        structure!("attach", Attach, fd, reserved);
        structure!("window", Pages, pages, reserved);
        structure!("transfer", InterfacePart, offset, length, timeout_ms, reserved);
        structure!("pte", Pte, address, entry, page_bytes, level, flags, levels, reserved);
        for (name, call) in [
            ("HELLO", HELLO),
            ("ATTACH", ATTACH),
            ("DETACH", DETACH),
            ("WINDOW", WINDOW),
            ("SEND", SEND),
            ("RECEIVE", RECEIVE),
            ("PTE", PTE),
        ] {
            add(&format!("FATHOM_IOC_{name}"), u64::from(call));
        }
        for (name, bit) in [
            ("PRESENT", flag::PRESENT),
            ("WRITE", flag::WRITE),
            ("DIRTY", flag::DIRTY),
            ("ACCESSED", flag::ACCESSED),
            ("LEAF", flag::LEAF),
            ("FRAME", flag::FRAME),
            ("MAPPED", flag::MAPPED),
        ] {
            add(&format!("FATHOM_PTE_{name}"), bit.into());
        }
        add("FATHOM_VERSION", VERSION.into());
        add("FATHOM_WINDOW_PAGES_MAX", WINDOW_PAGES_MAX as u64);
        add("FATHOM_STRUCT_BYTES", STRUCT_BYTES as u64);
        all
    }

    #[test]
    fn structures_and_calls_are_those_of_the_header() {
        let values = values();
        let lines: String =
            values.iter().map(|(text, _)| format!("(unsigned long long)({text}),\n")).collect();
        let program = format!(
            "#include <stdio.h>\n#include <stddef.h>\n#include \"fathom.h\"\n\
             unsigned long long all[] = {{ {lines} }};\n\
             int main(void) {{ for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++)\n\
             printf(\"%llu\\n\", all[i]); }}\n"
        );
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join("values");
        let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kmod/uapi");
        let mut compiler = Command::new("cc");
        compiler.args(["-Wall", "-Werror", "-I", header, "-x", "c", "-", "-o"]).arg(&built);
        let Ok(mut running) = compiler.stdin(Stdio::piped()).spawn() else {
            return crate::tests::skipped("the interface and its header: needs cc");
        };
        running.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
        assert!(running.wait().unwrap().success(), "{program}");
        let out = Command::new(&built).output().unwrap().stdout;
        let found: Vec<u64> =
            String::from_utf8(out).unwrap().lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(found.len(), values.len());
        for ((text, expected), found) in values.iter().zip(found) {
            assert_eq!(*expected, found, "{text}");
        }
    }
}
