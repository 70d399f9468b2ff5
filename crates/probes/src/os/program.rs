//! A minimal program: a static one-page ELF file in memory, without C library and start-up code.
//!
//! Its first instructions read the run's clock. It then calls getpid, writes timestamp and pid to a
//! pipe and exits with a status of its own.
//!
//! The file is a memfd, started through the worker's descriptor in /proc, so no name is left
//! behind.

use std::arch::global_asm;
use std::ffi::{CString, c_char};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr;

use fathom_measure::clock::ClockStamp;
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::prelude::*;

/// The program's exit status, unlikely to come from anything else.
pub(super) const EXIT_STATUS: i32 = 7;
/// Load address: a multiple of every page size, and above every `vm.mmap_min_addr`.
const ADDRESS: u64 = 0x40_0000;
/// Segment alignment: the largest page size of any kernel.
const PAGE_BYTES_MAX: u64 = 1 << 16;
/// The ELF header and two program headers.
const HEADER_BYTES: usize = 64 + 2 * 56;

// The code after the clock read, which leaves the timestamp in rax. The word after the code is the
// descriptor to write to.
#[cfg(target_arch = "x86_64")]
global_asm!(
    ".pushsection .rodata.fathom_program, \"a\", @progbits",
    ".hidden fathom_program_tail, fathom_program_tail_end",
    ".globl fathom_program_tail, fathom_program_tail_end",
    "fathom_program_tail:",
    "sub rsp, 16",
    "mov qword ptr [rsp], rax",
    "mov eax, {getpid}",
    "syscall",
    "mov qword ptr [rsp + 8], rax",
    "mov edi, dword ptr [rip + 2f]",
    "mov rsi, rsp",
    "mov edx, {report_bytes}",
    "mov eax, {write}",
    "syscall",
    "mov edi, {status}",
    "mov eax, {exit_group}",
    "syscall",
    "2:",
    "fathom_program_tail_end:",
    ".popsection",
    getpid = const libc::SYS_getpid,
    write = const libc::SYS_write,
    exit_group = const libc::SYS_exit_group,
    report_bytes = const size_of::<ProgramReport>(),
    status = const EXIT_STATUS,
);

// The same with the timestamp in x0.
#[cfg(target_arch = "aarch64")]
global_asm!(
    ".pushsection .rodata.fathom_program, \"a\", %progbits",
    ".p2align 2",
    ".hidden fathom_program_tail, fathom_program_tail_end",
    ".globl fathom_program_tail, fathom_program_tail_end",
    "fathom_program_tail:",
    "sub sp, sp, #16",
    "str x0, [sp]",
    "mov x8, #{getpid}",
    "svc #0",
    "str x0, [sp, #8]",
    "ldr w0, 2f",
    "mov x1, sp",
    "mov x2, #{report_bytes}",
    "mov x8, #{write}",
    "svc #0",
    "mov x0, #{status}",
    "mov x8, #{exit_group}",
    "svc #0",
    "2:",
    "fathom_program_tail_end:",
    ".popsection",
    getpid = const libc::SYS_getpid,
    write = const libc::SYS_write,
    exit_group = const libc::SYS_exit_group,
    report_bytes = const size_of::<ProgramReport>(),
    status = const EXIT_STATUS,
);

// SAFETY: the symbols mark the first byte of the assembly above and the byte after its last; only
// their addresses are used.
unsafe extern "C" {
    static fathom_program_tail: u8;
    static fathom_program_tail_end: u8;
}

/// What the program writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct ProgramReport {
    pub(super) stamp: ClockStamp,
    pub(super) pid: u64,
}

pub(super) struct Program {
    /// By which any process can start it.
    pub(super) path: CString,
    reports: OwnedFd,
    /// Kept open: the path contains its number.
    _file: OwnedFd,
    /// Kept open: every started program inherits it and writes its report to it.
    _writer: OwnedFd,
}

impl Program {
    /// Generates the program for this clock.
    pub(super) fn new(clock: &Clock) -> Result<Self> {
        let (reports, writer) =
            pipe_with(PipeFlags::NONBLOCK).map_err(|error| SamplerFault::system("pipe", error))?;
        // Only the read end: the program inherits the write end across execve.
        rustix::io::fcntl_setfd(&reports, rustix::io::FdFlags::CLOEXEC)
            .map_err(|error| SamplerFault::system("fcntl", error))?;
        let file = memory_file(&elf(clock.stop_code(), writer.as_raw_fd()))?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let path = CString::new(path).map_err(|error| SamplerFault::system("path", error))?;
        Ok(Self { path, reports, _file: file, _writer: writer })
    }

    /// Reads the program's report after its exit.
    pub(super) fn report(&self) -> Result<ProgramReport> {
        let mut bytes = [0; size_of::<ProgramReport>()];
        match (rustix::io::read(&self.reports, &mut bytes), bytes.as_chunks().0) {
            (Ok(16), [stamp, pid]) => Ok(ProgramReport {
                stamp: ClockStamp::from_le_bytes(*stamp),
                pid: u64::from_le_bytes(*pid),
            }),
            (Err(Errno::AGAIN), _) => {
                Err(SamplerFault::WrongWork("the program wrote nothing".to_owned()))
            }
            (Err(error), _) => Err(SamplerFault::system("read", error)),
            (Ok(bytes), _) => {
                Err(SamplerFault::WrongWork(format!("the program wrote {bytes} bytes")))
            }
        }
    }
}

/// Arguments or environment for `execve`: an array of pointers that ends with null.
pub(super) struct CStrings {
    pointers: Vec<*const c_char>,
    _strings: Vec<CString>,
}

impl CStrings {
    pub(super) fn new(strings: &[&std::ffi::CStr]) -> Self {
        let strings: Vec<CString> = strings.iter().map(|string| (*string).to_owned()).collect();
        // Moving the vector does not move the strings on the heap.
        let pointers = strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect();
        Self { pointers, _strings: strings }
    }

    pub(super) fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }
}

/// A memfd with these contents, reopened read-only: execve refuses files open for writing.
fn memory_file(contents: &[u8]) -> Result<OwnedFd> {
    let refused =
        |error| SamplerFault::unavailable(format!("memfd_create: {error}"), Remedy::LeaveSandbox);
    // Kernels before 6.3 reject MFD_EXEC; their memfds are always executable.
    let create = |flags| memfd_create(c"fathom-program", flags);
    let file = create(MemfdFlags::CLOEXEC | MemfdFlags::EXEC)
        .or_else(|_| create(MemfdFlags::CLOEXEC))
        .map_err(refused)?;
    let written =
        rustix::io::write(&file, contents).map_err(|e| SamplerFault::system("write", e))?;
    if written != contents.len() {
        return Err(SamplerFault::Failed(format!("wrote {written} of {} bytes", contents.len())));
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(
        |error| SamplerFault::unavailable(format!("open {path}: {error}"), Remedy::MountProc),
    )
}

/// The file: headers, the clock read, the code after it, and the descriptor to write to.
fn elf(stamp: &[u8], descriptor: i32) -> Vec<u8> {
    let (first, end) = (&raw const fathom_program_tail, &raw const fathom_program_tail_end);
    // SAFETY: both are addresses in one read-only section, the end after the first.
    let tail = unsafe { std::slice::from_raw_parts(first, end.addr() - first.addr()) };
    let file_bytes = HEADER_BYTES + stamp.len() + tail.len() + size_of::<i32>();
    let mut file = header(file_bytes as u64);
    file.extend_from_slice(stamp);
    file.extend_from_slice(tail);
    file.extend_from_slice(&descriptor.to_le_bytes());
    file
}

/// ELF and program headers of an executable whose load segment is the whole file (elf(5)). Both
/// architectures are little-endian.
fn header(file_bytes: u64) -> Vec<u8> {
    let machine = if cfg!(target_arch = "x86_64") { libc::EM_X86_64 } else { libc::EM_AARCH64 };
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    let mut put = |number: u64, size: usize| bytes.extend(&number.to_le_bytes()[..size]);
    put(libc::ET_EXEC.into(), 2);
    put(machine.into(), 2);
    put(1, 4); // e_version
    put(ADDRESS + HEADER_BYTES as u64, 8); // e_entry
    put(64, 8); // e_phoff
    put(0, 8); // e_shoff
    put(0, 4); // e_flags
    put(64, 2); // e_ehsize
    put(56, 2); // e_phentsize
    put(2, 2); // e_phnum
    put(64, 2); // e_shentsize
    put(0, 4); // e_shnum, e_shstrndx
    put(libc::PT_LOAD.into(), 4);
    put((libc::PF_R | libc::PF_X).into(), 4);
    let segment = [0, ADDRESS, ADDRESS, file_bytes, file_bytes, PAGE_BYTES_MAX];
    segment.into_iter().for_each(|field| put(field, 8));
    // Without this header the stack is executable.
    put(libc::PT_GNU_STACK.into(), 4);
    put((libc::PF_R | libc::PF_W).into(), 4);
    [0, 0, 0, 0, 0, 16].into_iter().for_each(|field| put(field, 8));
    bytes
}
