//! Programs that a test starts: how they end, and what they leave running.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);
const LOOKS_A_SECOND: u64 = 500;

/// A child that is killed when this is dropped, with all in its process group.
pub struct KilledOnDrop(Child);

impl KilledOnDrop {
    /// Starts it in a process group of its own: a tracer that is killed alone would detach from
    /// what it traces.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command.process_group(0).spawn().map(Self)
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// How it ended, or `None` where it was still running after `seconds`. `meanwhile` is called
    /// every 2 ms until then.
    ///
    /// # Errors
    /// That of `meanwhile`, which ends the wait.
    pub fn ended_within<E: From<io::Error>>(
        &mut self,
        seconds: u64,
        meanwhile: impl FnMut() -> Result<(), E>,
    ) -> Result<Option<ExitStatus>, E> {
        wait(&mut self.0, seconds, meanwhile)
    }
}

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // The group of a child that was reaped is gone, and its number may be another's.
        if !matches!(self.0.try_wait(), Ok(Some(_)))
            && let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// How a program ended, or `None` where it was still running after `seconds` and was killed.
pub fn ended_within(child: &mut Child, seconds: u64) -> Option<ExitStatus> {
    let status = wait(child, seconds, || Ok::<(), io::Error>(())).ok().flatten();
    if status.is_none() {
        // It may have ended just now; then there is nothing to kill.
        let _ = child.kill();
        let _ = child.wait();
    }
    status
}

fn wait<E: From<io::Error>>(
    child: &mut Child,
    seconds: u64,
    mut meanwhile: impl FnMut() -> Result<(), E>,
) -> Result<Option<ExitStatus>, E> {
    for _ in 0..seconds * LOOKS_A_SECOND {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        meanwhile()?;
        std::thread::sleep(PAUSE);
    }
    Ok(None)
}

/// The living processes with `variable` (`NAME=value`) in their environment: a program that was
/// started with it, its workers and what those forked, whoever their parent is by now. A zombie
/// has no environment.
pub fn carrying(variable: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes())
        })
        .collect()
}

/// What is left of [`carrying`] when it was given `seconds` to end; empty if all is well.
pub fn left_after(variable: &str, seconds: u64) -> Vec<u32> {
    let mut left = Vec::new();
    for _ in 0..seconds * LOOKS_A_SECOND {
        left = carrying(variable);
        if left.is_empty() {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    left
}

/// The children of all threads of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|one| std::fs::read_to_string(one.path().join("children")).ok());
    let numbers = |list: String| -> Vec<u32> {
        list.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    lists.flat_map(numbers).collect()
}

/// The children of a process, and theirs.
pub fn descendants(pid: u32) -> Vec<u32> {
    let own = children(pid).into_iter();
    own.flat_map(|child| std::iter::once(child).chain(descendants(child))).collect()
}
