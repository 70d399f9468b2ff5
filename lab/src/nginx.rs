//! nginx with one worker, as a server that is not `fathom serve`.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use fathom_measure::process::Running;
use rustix::fs::{Advice, fadvise};

use crate::Unmet;

/// Debian's place, which is in root's search path only.
const PLACES: [&str; 2] = ["/usr/sbin/nginx", "nginx"];
const CONFIGURATION: &str = "nginx.conf";
/// Written when its sockets listen.
const STARTED: &str = "nginx.pid";
const WAIT: Duration = Duration::from_millis(10);
const WAITS_MAX: u32 = 3_000;
/// Between two evictions of all files: they cost CPU time, and in a longer time files are warm.
const EVICTION_PAUSE: Duration = Duration::from_millis(50);

/// The command that serves the folder `set` of a folder.
///
/// # Errors
/// [`Unmet`] without nginx.
pub fn command(folder: &Path, address: &str) -> anyhow::Result<Command> {
    let runs = |place: &&str| Command::new(place).arg("-v").output().is_ok();
    let place = PLACES.into_iter().find(runs);
    let place = place.ok_or_else(|| Unmet("nginx is not installed".to_owned()))?;
    let text = format!(
        "daemon off; user root; worker_processes 1; pid {STARTED}; error_log nginx.err;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; sendfile on; keepalive_requests 1000000000;\n\
         server {{ listen {address}; root set; }} }}\n"
    );
    std::fs::write(folder.join(CONFIGURATION), text)?;
    let mut command = Command::new(place);
    command.arg("-p").arg(folder).args(["-e", "nginx.err", "-c", CONFIGURATION]);
    command.current_dir(folder);
    Ok(command)
}

/// Waits until it listens.
///
/// # Errors
/// If it ends, or takes half a minute.
pub fn await_start(folder: &Path, server: &mut Running) -> anyhow::Result<()> {
    let mut waits = 0;
    while !folder.join(STARTED).exists() {
        waits += 1;
        let has_ended = server.try_wait()?.is_some();
        let errors = || std::fs::read_to_string(folder.join("nginx.err")).unwrap_or_default();
        anyhow::ensure!(!has_ended && waits < WAITS_MAX, "nginx: {}", errors());
        std::thread::sleep(WAIT);
    }
    Ok(())
}

/// Evicts files from the page cache again and again, until it is dropped.
pub struct Evictor {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Evictor {
    /// # Errors
    /// If the folder or a file cannot be read.
    pub fn start(folder: &Path) -> io::Result<Self> {
        let open = |entry: io::Result<std::fs::DirEntry>| {
            let file = File::open(entry?.path())?;
            // What is not written yet is not evicted.
            file.sync_all()?;
            Ok(file)
        };
        let files: Vec<File> = std::fs::read_dir(folder)?.map(open).collect::<io::Result<_>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                files.iter().for_each(|file| _ = fadvise(file, 0, None, Advice::DontNeed));
                std::thread::sleep(EVICTION_PAUSE);
            }
        });
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Evictor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}
