//! The store of a measuring command. If it fails, the command warns once and goes on measuring.

use std::time::Duration;

use fathom_measure::host::HostReader;
use fathom_record::Host;
use fathom_store::{Place, Store, StoreError};

use super::spool::Spool;
use super::stored_run;
use crate::arguments::{MemberOptions, StoreArguments};
use crate::exit::{UsageError, is_usage};
use crate::remedy;
use crate::remedy::with_remedy;
use crate::terminal;

/// Waits for the process that sends results: at the beginning, when nothing is lost yet, and at the
/// end.
const ANNOUNCE_LIMIT: Duration = Duration::from_secs(15);
const SEND_LIMIT: Duration = Duration::from_secs(120);

pub(super) struct RunStore {
    /// `None` after an error. Of a database, the spool.
    store: Option<Store>,
    spool: Option<Spool>,
    /// Of a database, the last runs that were sent.
    sent: Option<Store>,
    /// Whether a missing record is a failure: the user named the store, or it failed during the
    /// run.
    required: bool,
    /// Whether a record could not be stored.
    has_lost: bool,
}

impl RunStore {
    /// Opens the store; warns if that fails, and if this host may be a clone of another one in it.
    ///
    /// # Errors
    /// If the address of a database is malformed, or the database will never take a run.
    pub(super) fn open(arguments: &StoreArguments, host: &Host) -> anyhow::Result<Self> {
        let required = stored_run::named_store(arguments).is_some();
        let warn = |error: &anyhow::Error| {
            terminal::warn(&format!("this run is not stored: {}", remedy::line(error)));
        };
        let opened = match Self::opened(arguments) {
            Err(error) if is_usage(&error) => return Err(UsageError(remedy::line(&error)).into()),
            Err(error) if error.downcast_ref().is_some_and(never_passes) => return Err(error),
            opened => opened.inspect_err(warn).ok(),
        };
        let (store, spool) = opened.map_or((None, None), |(store, spool)| (Some(store), spool));
        let mut store = store.map(stored_run::announced);
        if let (Some(store), Some(former)) = (&mut store, HostReader::live().former_id()) {
            // What cannot be mapped now can be later.
            let _ = store.map_host(&former, host);
        }
        let sent = spool.as_ref().and_then(Spool::open_sent);
        let this = Self { store, spool, sent, required, has_lost: false };
        // A store that cannot be read is reported when it is written.
        let clone = this.earlier().map(|store| stored_run::clone_warning(store, host));
        if let Some(Ok(Some(warning))) = clone {
            terminal::warn(&warning);
        }
        Ok(this)
    }

    fn opened(arguments: &StoreArguments) -> anyhow::Result<(Store, Option<Spool>)> {
        let place = stored_run::place(arguments)?;
        if let Place::Database(address) = &place {
            // What the database will not take would wait in the spool for ever.
            Store::examine(&place)
                .or_else(|it| if never_passes(&it) { Err(it) } else { Ok(()) })?;
            let spool = Spool::for_address(address, arguments.no_migrate)?;
            return Ok((spool.open()?, Some(spool)));
        }
        Ok((Store::open(&stored_run::store_place(arguments)?)?, None))
    }

    /// The store, unless a member of a fleet measures: its run is stored where it is delivered.
    pub(super) fn for_run(
        member: MemberOptions,
        arguments: &StoreArguments,
        host: &Host,
    ) -> anyhow::Result<Self> {
        if member.member { Ok(Self::none()) } else { Self::open(arguments, host) }
    }

    /// Stores nothing.
    pub(super) fn none() -> Self {
        Self { store: None, spool: None, sent: None, required: false, has_lost: false }
    }

    pub(super) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// What has the results of earlier runs on this host.
    pub(super) fn earlier(&self) -> Option<&Store> {
        self.sent.as_ref().or(self.store())
    }

    /// Has a run that has begun appear in the database. If that fails, the end of the run says so.
    pub(super) fn announce(&self) {
        if let Some(spool) = self.spool.as_ref().filter(|_| self.store.is_some()) {
            let _ = spool.send_apart(ANNOUNCE_LIMIT);
        }
    }

    /// Writes to the store, and returns warnings. A record that cannot be stored is lost alone; any
    /// other error ends all writing.
    pub(super) fn write(
        &mut self,
        write: impl FnOnce(&mut Store) -> Result<Vec<StoreError>, StoreError>,
    ) -> Vec<String> {
        let Some(store) = &mut self.store else { return Vec::new() };
        let refused = match write(store) {
            Ok(refused) => refused,
            Err(error @ StoreError::NotStorable { .. }) => vec![error],
            Err(error) => {
                self.store = None;
                self.required = true;
                return vec![format!("results are no longer stored: {}", with_remedy(&error))];
            }
        };
        self.has_lost |= !refused.is_empty();
        refused.iter().map(|error| format!("a result is not stored: {error}")).collect()
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_lost || (self.required && self.store.is_none())
    }
}

/// Whether a later try would fail as well. A server that does not answer may do so later.
fn never_passes(error: &StoreError) -> bool {
    matches!(error, StoreError::Encoding { .. } | StoreError::Rights { .. })
}

/// Whatever the command stored is sent when it is done.
impl Drop for RunStore {
    fn drop(&mut self) {
        let Some(spool) = self.spool.take() else { return };
        let has_runs = self.store.take().is_some_and(|it| it.runs().is_ok_and(|it| !it.is_empty()));
        if has_runs && let Err(error) = spool.send_apart(SEND_LIMIT) {
            terminal::warn(&spool.waiting(&error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_that_cannot_be_stored_costs_itself() {
        let folder = tempfile::tempdir().unwrap();
        let arguments =
            StoreArguments { store: Some(folder.path().join("fathom.db")), no_migrate: false };
        let mut store = RunStore::open(&arguments, &Host::default()).unwrap();
        let refused = || StoreError::NotStorable {
            run: "0123456789abcdef".to_owned(),
            what: "cpu.call".to_owned(),
            reason: "a number is not finite",
        };
        assert!(store.write(|_| Ok(Vec::new())).is_empty() && !store.has_failed());
        for warnings in [store.write(|_| Err(refused())), store.write(|_| Ok(vec![refused()]))] {
            let text = "a result is not stored: store cpu.call in run 0123456789abcdef: a number \
                        is not finite";
            assert_eq!(warnings, [text]);
        }
        assert!(store.has_failed() && store.store().is_some(), "the others are stored");
        let busy = StoreError::Busy { action: "write", path: folder.path().to_owned() };
        let warnings = store.write(|_| Err(busy));
        assert!(warnings[0].starts_with("results are no longer stored: "), "{warnings:?}");
        assert!(store.store().is_none() && store.write(|_| panic!("no store")).is_empty());
    }
}
