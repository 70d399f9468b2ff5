//! The store that a measuring command writes to. One that fails costs the record and not the
//! measurement: it goes on, with a warning before it and one after it.

use fathom_store::{Store, StoreError};

use super::stored;
use crate::arguments::StoreArguments;
use crate::remedy::in_full;
use crate::terminal;

/// Where a command keeps its run, if it can.
pub(super) struct Keeping {
    store: Result<Store, StoreError>,
    /// A missing record is a failure: the user named the store, or it failed after it was opened.
    must: bool,
    /// Something of the run is in the store.
    begun: bool,
}

impl Keeping {
    /// Opens the store, or warns that the run will not be kept.
    pub(super) fn open(arguments: &StoreArguments) -> Self {
        let named = stored::named(arguments);
        let must = named.is_some();
        let path = named.map_or_else(Store::default_path, Ok);
        let store = path.and_then(|path| Store::open(&path));
        if let Err(error) = &store {
            terminal::warn(&format!("this run is not kept: {}", in_full(error)));
        }
        Self { store, must, begun: false }
    }

    /// The store, for reading.
    pub(super) fn store(&self) -> Option<&Store> {
        self.store.as_ref().ok()
    }

    /// Writes to the store. One that fails, with this error, is not tried again.
    pub(super) fn keep<T>(
        &mut self,
        write: impl FnOnce(&mut Store) -> Result<T, StoreError>,
    ) -> Option<&StoreError> {
        let error = write(self.store.as_mut().ok()?).err();
        self.begun |= error.is_none();
        self.must |= error.is_some();
        self.store = Err(error?);
        self.store.as_ref().err()
    }

    /// Warns of what is missing in the store, after everything else was printed.
    pub(super) fn ends(&self) {
        let Err(error) = &self.store else { return };
        let what = if self.begun { "not all of this run is kept" } else { "this run is not kept" };
        terminal::warn(&format!("{what}: {}", in_full(error)));
    }

    /// Whether a missing record makes the command fail.
    pub(super) fn has_failed(&self) -> bool {
        self.must && self.store.is_err()
    }
}
