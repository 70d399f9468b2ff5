//! Results on their way to a database: a measuring process stores them in a file of its own, the
//! spool, and a process of its own sends them. So no client of a database is beside a timed kernel,
//! and a lost connection costs nothing.
//!
//! The spool has what the database has not acknowledged. Beside it is a store of the last runs that
//! were sent, without samples: what a measurement needs of earlier ones.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use fathom_fileio::mount::Mount;
use fathom_fileio::private;
use fathom_measure::clock::monotonic_raw_ns;
use fathom_measure::process::this_program;
use fathom_record::RunState;
use fathom_store::{Address, Keep, Place, Store, StoreError};

use crate::remedy::with_remedy;
use crate::terminal;

/// Runs that are kept of those sent, besides the last of each command.
const SENT_KEPT: u32 = 10;
/// How often the end of the sending process is looked for.
const PAUSE: Duration = Duration::from_millis(5);

pub(super) struct Spool {
    address: Address,
    path: PathBuf,
    sent: PathBuf,
    /// Passed on to the process that sends.
    no_migrate: bool,
}

/// What became of the runs in a spool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) ended: usize,
    pub(super) in_progress: usize,
    /// They stay in the spool.
    pub(super) failed: usize,
}

impl Spool {
    /// The spool of a database, in the user's data folder.
    pub(super) fn for_address(address: &Address, no_migrate: bool) -> anyhow::Result<Self> {
        let folder = folder().context("find a folder for results on their way to the database")?;
        let name = file_name(&address.to_string());
        let [path, sent] = ["db", "sent.db"].map(|end| folder.join(format!("{name}.{end}")));
        Ok(Self { address: address.clone(), path, sent, no_migrate })
    }

    pub(super) fn open(&self) -> Result<Store, StoreError> {
        Store::open(&self.path)
    }

    /// The last runs that were sent.
    pub(super) fn open_sent(&self) -> Option<Store> {
        Store::open_existing(&self.sent).ok()
    }

    /// Sends what is in the spool, the oldest run first, and deletes what is acknowledged.
    pub(super) fn send(&self) -> anyhow::Result<Sent> {
        let mut sent = Sent::default();
        if !self.path.exists() {
            return Ok(sent);
        }
        let mut spool = self.open()?;
        let runs = spool.runs()?;
        if runs.is_empty() {
            return Ok(sent);
        }
        let mut database = Store::open(Place::Database(self.address.clone()))?;
        for row in runs.iter().rev() {
            match database.take(&spool, &row.id) {
                Ok((_, RunState::Running | RunState::Unknown)) => sent.in_progress += 1,
                Ok(_) => {
                    // A run less is no reason to fail: only predictions look there.
                    let _ = self.keep(&spool, &row.id);
                    spool.delete(&row.id)?;
                    sent.ended += 1;
                }
                // The others are sent all the same.
                Err(error @ (StoreError::Damaged { .. } | StoreError::NotStorable { .. })) => {
                    terminal::warn(&format!("not sent: {}", with_remedy(&error)));
                    sent.failed += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if sent.ended == runs.len() {
            // The file shrinks.
            spool.prune(&[], false)?;
        }
        Ok(sent)
    }

    fn keep(&self, spool: &Store, id: &str) -> Result<(), StoreError> {
        let mut document = spool.document(id, false)?;
        // Runs with a label would be kept for ever.
        document.run.label = None;
        let mut sent = Store::open(&self.sent)?;
        sent.import(&document)?;
        let old = sent.old_runs(&Keep::Newest(SENT_KEPT))?;
        if !old.is_empty() {
            sent.prune(&old, true)?;
        }
        Ok(())
    }

    /// Has another process send what is in the spool, and waits for it.
    ///
    /// # Errors
    /// Why not all was sent.
    pub(super) fn send_apart(&self, limit: Duration) -> anyhow::Result<()> {
        let program = this_program().context("find this program")?;
        let mut command = Command::new(program);
        // The address may have a password: not an argument.
        command.args(["store", "forward"]).env("FATHOM_STORE", self.address.with_password());
        command.args(self.no_migrate.then_some("--no-migrate"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().context("start a process that sends it")?;
        let begun = monotonic_raw_ns();
        while child.try_wait().context("wait for the process that sends it")?.is_none() {
            if u128::from(monotonic_raw_ns() - begun) > limit.as_nanos() {
                // What it has not sent stays in the spool.
                let _ = child.kill();
                let _ = child.wait();
                bail!("not sent within {} s", limit.as_secs());
            }
            std::thread::sleep(PAUSE);
        }
        let output = child.wait_with_output().context("wait for the process that sends it")?;
        if output.status.success() {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().last().unwrap_or("the process that sends it was killed");
        bail!("{}", last.strip_prefix("fathom: ").unwrap_or(last))
    }

    /// The warning that results have not been sent.
    pub(super) fn waiting(&self, error: &anyhow::Error) -> String {
        format!(
            "the results are kept in {}, and sent by the next command with this store or by \
             `fathom store forward`: {error:#}",
            self.path.display()
        )
    }
}

/// Sends what earlier commands could not send to the database at this place.
///
/// # Errors
/// If the server does not answer: it would not answer the caller either. A role that only reads is
/// no error.
pub(super) fn send_earlier(place: &Place) -> anyhow::Result<()> {
    let Place::Database(address) = place else { return Ok(()) };
    match Spool::for_address(address, true).and_then(|spool| spool.send()) {
        Err(error) if matches!(error.downcast_ref(), Some(StoreError::Server { .. })) => Err(error),
        _ => Ok(()),
    }
}

/// The name of the spool of an address: readable, and another for each address.
fn file_name(address: &str) -> String {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let readable: String = rest.chars().map(plain).take(80).collect();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in address.bytes() {
        // FNV-1a: the same in every version of this program.
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    format!("{readable}-{hash:016x}")
}

/// The folder of the spools: beside the default store, or of this machine where that is shared by
/// several. Created with mode 0700.
fn folder() -> anyhow::Result<PathBuf> {
    let own = Store::default_path()?.with_file_name("spool");
    let own = create(&own)?;
    if !Mount::holding(&own).is_some_and(|mount| mount.is_network) {
        return Ok(own);
    }
    let user = rustix::process::geteuid().as_raw();
    create(&PathBuf::from(format!("/var/tmp/fathom-{user}")))
}

/// The folder, which others may have made before, as in /var/tmp. What is in it is sent in the name
/// of this user.
fn create(folder: &Path) -> anyhow::Result<PathBuf> {
    let own = private::create(folder).with_context(|| format!("create {}", folder.display()))?;
    if std::fs::metadata(&own).is_ok_and(|facts| facts.mode() & 0o77 != 0) {
        bail!("{} can be read by others; chmod 700 {0}", own.display());
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_a_spool_of_its_own() {
        let name = file_name("postgres://ada@db:5433/runs?sslmode=require");
        assert!(name.starts_with("ada-db-5433-runs-sslmode-require-"), "{name}");
        assert_ne!(file_name("postgres://a/b"), file_name("postgresql://a/b"));
        assert_ne!(file_name("postgres://a/b-c"), file_name("postgres://a/b?c"));
        assert!(file_name(&format!("postgres://{}", "a".repeat(300))).len() < 100);
    }

    #[test]
    fn folder_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;

        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("spool");
        create(&folder).unwrap();
        for mode in [0o755, 0o1777] {
            std::fs::set_permissions(&folder, PermissionsExt::from_mode(mode)).unwrap();
            assert!(create(&folder).is_err(), "{mode:o}");
        }
    }
}
