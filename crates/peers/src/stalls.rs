//! A server that stands still for a part of the time, as one does that collects garbage or waits
//! for a device.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use fathom_measure::process::Running;
use rustix::process::{Pid, Signal, kill_process};

/// A fifth of the time.
const RUNS: Duration = Duration::from_millis(800);
const STANDS: Duration = Duration::from_millis(200);

/// Stops and continues a process until it is dropped, which must be before the process is reaped.
pub struct Stalls {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Stalls {
    pub fn from_server(server: &Running) -> Self {
        let (end, ended) = channel();
        let pid = Pid::from_raw(server.id() as i32);
        let thread = pid.map(|pid| std::thread::spawn(move || alternate(pid, &ended)));
        Self { end: Some(end), thread }
    }
}

fn alternate(pid: Pid, ended: &Receiver<()>) {
    // An error means that the process has ended: nothing stands still then.
    for (time, next) in [(RUNS, Signal::STOP), (STANDS, Signal::CONT)].into_iter().cycle() {
        let is_over = ended.recv_timeout(time) != Err(RecvTimeoutError::Timeout);
        let _ = kill_process(pid, if is_over { Signal::CONT } else { next });
        if is_over {
            return;
        }
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // It cannot panic, and ends as its channel is closed.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::*;

    #[test]
    fn server_stands_still_again_and_again_and_runs_in_the_end() {
        let sleep = || {
            let mut command = Command::new("sleep");
            command.arg("3600");
            Ok(command)
        };
        let server = Running::start_tied(sleep, &[]).expect("it starts");
        let pid = Pid::from_raw(server.id() as i32).expect("a process");
        let stops_next = || {
            let changes = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED;
            waitid(WaitId::Pid(pid), changes).expect("a child").expect("a change").stopped()
        };
        let stalls = Stalls::from_server(&server);
        let changes: Vec<bool> = (0..5).map(|_| stops_next()).collect();
        assert_eq!(changes, [true, false, true, false, true]);
        drop(stalls);
        assert!(!stops_next());
    }
}
