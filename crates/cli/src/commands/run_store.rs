//! The store of a measuring command. If it fails, the command warns once and goes on measuring.

use fathom_record::Host;
use fathom_store::{Store, StoreError};

use super::stored_run;
use crate::arguments::{MemberOptions, StoreArguments};
use crate::remedy::with_remedy;
use crate::terminal;

pub(super) struct RunStore {
    /// `None` after an error.
    store: Option<Store>,
    /// Whether a missing record is a failure: the user named the store, or it failed during the
    /// run.
    required: bool,
    /// Whether a record could not be stored.
    has_lost: bool,
}

impl RunStore {
    /// Opens the store; warns if that fails, and if this host may be a clone of another one in it.
    pub(super) fn open(arguments: &StoreArguments, host: &Host) -> Self {
        let required = stored_run::named_store(arguments).is_some();
        let opened = stored_run::store_path(arguments).and_then(|path| Store::open(&path));
        let warn = |error: &StoreError| {
            terminal::warn(&format!("this run is not stored: {}", with_remedy(error)));
        };
        let store = opened.inspect_err(warn).ok().map(stored_run::announced);
        // A store that cannot be read is reported when it is written.
        let clone = store.as_ref().map(|store| stored_run::clone_warning(store, host));
        if let Some(Ok(Some(warning))) = clone {
            terminal::warn(&warning);
        }
        Self { store, required, has_lost: false }
    }

    /// The store, unless a member of a fleet measures: its run is stored where it is delivered.
    pub(super) fn of(member: MemberOptions, arguments: &StoreArguments, host: &Host) -> Self {
        if member.member { Self::none() } else { Self::open(arguments, host) }
    }

    /// Stores nothing.
    pub(super) fn none() -> Self {
        Self { store: None, required: false, has_lost: false }
    }

    pub(super) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_that_cannot_be_stored_costs_itself() {
        let folder = tempfile::tempdir().unwrap();
        let arguments =
            StoreArguments { store: Some(folder.path().join("fathom.db")), no_migrate: false };
        let mut store = RunStore::open(&arguments, &Host::default());
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
