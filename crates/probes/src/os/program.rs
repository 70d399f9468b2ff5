//! A program of our own, as small as programs are: an ELF file of one page in memory, without a
//! C library, an interpreter or a start-up of any kind.
//!
//! Its first instructions take a stop stamp of the run's clock. It then asks for its process
//! number, writes both to a pipe and leaves with a status of its own: whoever starts it learns
//! when it began, that it ran, and as whom.
//!
//! The file has no name that could stay behind: it is reached through the worker's own descriptor.

use fathom_record::Remedy;
use std::arch::global_asm;
use std::ffi::{CString, c_char};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr;

use fathom_measure::Clock;
use fathom_measure::clock::Stamp;
use fathom_measure::sampler::Fault;
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// What the program leaves with: a status that nothing else leaves with by chance.
pub(super) const EXIT_STATUS: i32 = 7;
/// Where it is loaded: a multiple of every page size, and above every `vm.mmap_min_addr`.
const ADDRESS: u64 = 0x40_0000;
/// The largest page size, so that the file fits every kernel.
const PAGE_BYTES_MAX: u64 = 1 << 16;
/// The ELF header and the headers of two segments.
const HEADER_BYTES: usize = 64 + 2 * 56;

// What follows the stamp, which is in rax. The word behind it is the descriptor to write to.
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
    "mov edx, {note_bytes}",
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
    note_bytes = const size_of::<Note>(),
    status = const EXIT_STATUS,
);

// The same with the stamp in x0.
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
    "mov x2, #{note_bytes}",
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
    note_bytes = const size_of::<Note>(),
    status = const EXIT_STATUS,
);

// SAFETY: the symbols are those of the assembly above, the first byte and the byte after the last;
// only their addresses are used.
unsafe extern "C" {
    static fathom_program_tail: u8;
    static fathom_program_tail_end: u8;
}

/// What the program writes when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Note {
    /// When its first instructions ran.
    pub(super) stamp: Stamp,
    /// Its process number.
    pub(super) process: u64,
}

/// The program, ready to be started.
pub(super) struct Program {
    path: CString,
    notes: OwnedFd,
    /// Held open: the path leads through its number.
    _file: OwnedFd,
    /// Held open, and inherited by every program that is started: the end that notes come from.
    _written: OwnedFd,
}

impl Program {
    /// Writes the program for this clock.
    pub(super) fn new(clock: &Clock) -> Result<Self, Fault> {
        let (notes, written) =
            pipe_with(PipeFlags::NONBLOCK).map_err(|error| Fault::system("pipe", error))?;
        rustix::io::fcntl_setfd(&notes, rustix::io::FdFlags::CLOEXEC)
            .map_err(|error| Fault::system("fcntl", error))?;
        let file = in_memory(&elf(clock.stop_code(), written.as_raw_fd()))?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        // The format has no place for a zero byte.
        let path = CString::new(path).map_err(|error| Fault::system("path", error))?;
        Ok(Self { path, notes, _file: file, _written: written })
    }

    /// The path by which any process can start it.
    pub(super) fn path(&self) -> &CString {
        &self.path
    }

    /// Takes what the program wrote, once it has ended.
    pub(super) fn note(&self) -> Result<Note, Fault> {
        let mut bytes = [0; size_of::<Note>()];
        match (rustix::io::read(&self.notes, &mut bytes), bytes.as_chunks().0) {
            (Ok(16), [stamp, process]) => Ok(Note {
                stamp: Stamp::from_le_bytes(*stamp),
                process: u64::from_le_bytes(*process),
            }),
            (Err(Errno::AGAIN), _) => Err(Fault::WrongWork("the program wrote nothing".to_owned())),
            (Err(error), _) => Err(Fault::system("read", error)),
            (Ok(bytes), _) => Err(Fault::WrongWork(format!("the program wrote {bytes} bytes"))),
        }
    }
}

/// Arguments or an environment, as `execve` takes them: pointers, and a null at the end.
pub(super) struct Strings {
    pointers: Vec<*const c_char>,
    _strings: Vec<CString>,
}

impl Strings {
    pub(super) fn new(strings: &[&std::ffi::CStr]) -> Self {
        let strings: Vec<CString> = strings.iter().map(|string| (*string).to_owned()).collect();
        // What the pointers point to stays where it is when the vector moves.
        let pointers = strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect();
        Self { pointers, _strings: strings }
    }

    pub(super) fn as_ptr(&self) -> *const *const c_char {
        self.pointers.as_ptr()
    }
}

/// A file in memory with these contents, open for reading only: nothing that somebody could write
/// to can be executed.
fn in_memory(contents: &[u8]) -> Result<OwnedFd, Fault> {
    let refused =
        |error| Fault::unavailable(format!("memfd_create: {error}"), Remedy::LeaveSandbox);
    // Kernels before 6.3 refuse the flag that says what they do anyhow.
    let create = |flags| memfd_create(c"fathom-program", flags);
    let file = create(MemfdFlags::CLOEXEC | MemfdFlags::EXEC)
        .or_else(|_| create(MemfdFlags::CLOEXEC))
        .map_err(refused)?;
    let written = rustix::io::write(&file, contents).map_err(|e| Fault::system("write", e))?;
    if written != contents.len() {
        return Err(Fault::Failed(format!("wrote {written} of {} bytes", contents.len())));
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| Fault::unavailable(format!("open {path}: {error}"), Remedy::MountProc))
}

/// The file: headers, the stamp, what follows it, and the descriptor to write to.
fn elf(stamp: &[u8], descriptor: i32) -> Vec<u8> {
    let (first, end) = (&raw const fathom_program_tail, &raw const fathom_program_tail_end);
    // SAFETY: both are addresses in one section of this program, the end behind the first, and
    // what lies between them is constant.
    let tail = unsafe { std::slice::from_raw_parts(first, end.addr() - first.addr()) };
    let file_bytes = HEADER_BYTES + stamp.len() + tail.len() + size_of::<i32>();
    let mut file = header(file_bytes as u64);
    file.extend_from_slice(stamp);
    file.extend_from_slice(tail);
    file.extend_from_slice(&descriptor.to_le_bytes());
    file
}

/// The headers of an executable whose one segment is the whole file (elf(5)). Both architectures
/// are little-endian.
fn header(file_bytes: u64) -> Vec<u8> {
    let machine = if cfg!(target_arch = "x86_64") { libc::EM_X86_64 } else { libc::EM_AARCH64 };
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    let mut put = |number: u64, size: usize| bytes.extend(&number.to_le_bytes()[..size]);
    put(libc::ET_EXEC.into(), 2);
    put(machine.into(), 2);
    put(1, 4); // The version of the format.
    put(ADDRESS + HEADER_BYTES as u64, 8); // The first instruction.
    put(64, 8); // Where the segments' headers begin,
    put(0, 8); // and those of sections, of which there are none.
    put(0, 4);
    put(64, 2);
    put(56, 2);
    put(2, 2); // Two segments,
    put(64, 2);
    put(0, 4); // no section.
    put(libc::PT_LOAD.into(), 4);
    put((libc::PF_R | libc::PF_X).into(), 4);
    let place = [0, ADDRESS, ADDRESS, file_bytes, file_bytes, PAGE_BYTES_MAX];
    place.into_iter().for_each(|field| put(field, 8));
    // A stack that is not executable, which must be asked for.
    put(libc::PT_GNU_STACK.into(), 4);
    put((libc::PF_R | libc::PF_W).into(), 4);
    [0, 0, 0, 0, 0, 16].into_iter().for_each(|field| put(field, 8));
    bytes
}
