//! The requests of ptrace(2) that a run is followed with.

use std::io::Error;
use std::mem::size_of;
use std::os::unix::fs::MetadataExt as _;

use libc::{c_int, c_long, c_void, pid_t};

/// Not in every C library.
const GET_SYSCALL_INFO: c_int = 0x420e;
pub(super) const EVENT_STOP: c_int = 128;

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const NATIVE: u32 = 0;
/// Calls of the x32 interface have it.
const X32: u64 = 0x4000_0000;

#[repr(C)]
#[derive(Default)]
struct SyscallInfo {
    kind: u8,
    padding: [u8; 3],
    arch: u32,
    instruction: u64,
    stack: u64,
    data: [u64; 8],
}

/// A thread before or after a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallStop {
    Entry {
        number: i64,
        arguments: [u64; 6],
    },
    Exit {
        result: i64,
    },
    /// Of another interface than that of this program, such as 32 bits.
    Foreign,
    None,
}

fn request(request: c_int, pid: pid_t, address: usize, data: usize) -> Result<c_long, Error> {
    // SAFETY: the callers pass requests whose data are numbers, or point to memory of their size.
    match unsafe { libc::syscall(libc::SYS_ptrace, request as c_long, pid, address, data) } {
        -1 => Err(Error::last_os_error()),
        answer => Ok(answer),
    }
}

/// Attaches without stopping. All that it creates is followed from the first instruction on. What
/// was started to be counted does not outlive this process.
pub(super) fn seize(pid: pid_t, is_own: bool) -> Result<(), Error> {
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_TRACEEXIT
        | if is_own { libc::PTRACE_O_EXITKILL } else { 0 };
    request(libc::PTRACE_SEIZE as c_int, pid, 0, options as usize).map(drop)
}

/// Lets a thread run to its next system call. That it died meanwhile is reported as its end.
pub(super) fn resume(pid: pid_t, signal: c_int) {
    let _ = request(libc::PTRACE_SYSCALL as c_int, pid, 0, signal as usize);
}

/// Leaves a thread stopped by a signal, until it is continued.
pub(super) fn listen(pid: pid_t) {
    let _ = request(libc::PTRACE_LISTEN as c_int, pid, 0, 0);
}

pub(super) fn interrupt(pid: pid_t) {
    let _ = request(libc::PTRACE_INTERRUPT as c_int, pid, 0, 0);
}

pub(super) fn detach(pid: pid_t, signal: c_int) {
    let _ = request(libc::PTRACE_DETACH as c_int, pid, 0, signal as usize);
}

/// The new process of a fork.
pub(super) fn event_message(pid: pid_t) -> Option<pid_t> {
    let mut message: libc::c_ulong = 0;
    let to = (&raw mut message) as usize;
    request(libc::PTRACE_GETEVENTMSG as c_int, pid, 0, to).ok()?;
    pid_t::try_from(message).ok()
}

/// # Errors
/// Before Linux 5.3.
pub(super) fn call_stop(pid: pid_t) -> Result<CallStop, Error> {
    let mut info = SyscallInfo::default();
    let to = (&raw mut info).cast::<c_void>() as usize;
    match request(GET_SYSCALL_INFO, pid, size_of::<SyscallInfo>(), to) {
        // It was killed.
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(CallStop::None),
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    let [number, arguments @ .., _] = info.data;
    Ok(match info.kind {
        1 | 2 if info.arch != NATIVE => CallStop::Foreign,
        1 if number & X32 != 0 && number >> 32 == 0 => CallStop::Foreign,
        1 => CallStop::Entry { number: number as i64, arguments },
        2 => CallStop::Exit { result: number as i64 },
        _ => CallStop::None,
    })
}

/// Who may trace whom, as Yama restricts it.
const SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// Why a child cannot be traced, or a process that runs already, and what to do.
pub(super) fn obstacle(error: &Error, running: Option<pid_t>) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let scope = read(SCOPE);
    let own = rustix::process::geteuid().as_raw();
    let user = |process: &str| std::fs::metadata(format!("/proc/{process}")).map(|it| it.uid());
    let tracer = |process: &str| {
        let status = read(&format!("/proc/{process}/status"));
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        tracer.map(|pid| pid.trim().to_owned()).filter(|pid| pid != "0")
    };
    let of_running =
        running.filter(|_| error.raw_os_error() == Some(libc::EPERM)).and_then(|pid| {
            let pid = pid.to_string();
            match (tracer(&pid), user(&pid)) {
            (Some(by), _) => Some(format!("PID {by} traces PID {pid} already; end that first")),
            _ if own == 0 => None,
            (_, Ok(server)) if server != own => {
                Some(format!("PID {pid} is another user's; run this as root"))
            }
            _ if scope.trim() == "1" => Some(
                "kernel.yama.ptrace_scope is 1, which allows it for children only; run this as \
                 root, or `sysctl kernel.yama.ptrace_scope=0`"
                    .to_owned(),
            ),
            _ => None,
        }
        });
    let reason = match scope.trim() {
        _ if error.raw_os_error() != Some(libc::EPERM) => error.to_string(),
        _ if let Some(reason) = of_running => reason,
        _ if tracer("self").is_some() => {
            "another program traces this one; run it without strace".to_owned()
        }
        "3" => "kernel.yama.ptrace_scope is 3 until the next start; set it to 1 then".to_owned(),
        "2" => "kernel.yama.ptrace_scope is 2; `sysctl kernel.yama.ptrace_scope=1`".to_owned(),
        _ => "a container or its seccomp filter forbids it; start it with --cap-add SYS_PTRACE"
            .to_owned(),
    };
    format!("ptrace is not permitted: {reason}")
}
