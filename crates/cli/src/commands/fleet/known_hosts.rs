//! Whose id a member joins with. Runs of a host are found by its id: a member that has the id of
//! another host would replace the newest numbers of that host.

use fathom_fleet::Join;
use fathom_measure::host::{self, HostReader};
use fathom_record::Host;
use fathom_record::host::NAME_VARIABLE;
use fathom_store::Store;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

pub(super) struct KnownHosts {
    here: Host,
    boot_id: String,
    store: Option<Store>,
}

impl KnownHosts {
    /// This host, and those of the store.
    pub(super) fn read(store: Option<Store>) -> Self {
        Self { here: host::read(), boot_id: boot_id(&HostReader::live()), store }
    }

    /// Gives a member the id by its name if its own id is that of another host; the warning. This
    /// host is one that connects from here, by `is_local`: boot ids are no secret.
    ///
    /// # Errors
    /// If it has no other id.
    pub(super) fn examine(
        &self,
        join: &mut Join,
        is_local: bool,
    ) -> Result<Option<String>, String> {
        let name = &join.host.name;
        let named = join.named_id.clone().filter(|id| self.owner(id, join, is_local).is_none());
        let owner = match (self.owner(join.host.identity(), join, is_local), &join.named_id) {
            (Some(owner), _) => owner,
            // Clones within the fleet get the id by their names later.
            (None, Some(_)) if named.is_none() => "another host".to_owned(),
            (None, _) => return Ok(None),
        };
        let differs = format!("{name} has the id of {owner}, but another name, boot id or address");
        if named.is_none() {
            return Err(format!("{differs}: name it by {NAME_VARIABLE}"));
        }
        join.host.id = named;
        Ok(Some(format!("{differs}: its runs are stored under an id by its name")))
    }

    /// The other host that has this id.
    fn owner(&self, id: &str, join: &Join, is_local: bool) -> Option<String> {
        let (name, boot_id) = (&join.host.name, &join.boot_id);
        if id == self.here.identity() {
            let is_here = is_local && *name == self.here.name && *boot_id == self.boot_id;
            return (!is_here || boot_id.is_empty())
                .then(|| format!("this host, {}", self.here.name));
        }
        let known = self.store.as_ref()?.name_of(id).ok().flatten();
        known.filter(|known| known != name)
    }
}

/// The id of the running kernel; empty if it cannot be read.
pub(super) fn boot_id(reader: &HostReader) -> String {
    reader.text(BOOT_ID).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(name: &str, id: Option<&str>, boot_id: &str) -> Join {
        let (id, boot_id) = (id.map(str::to_owned), boot_id.to_owned());
        let host = Host { name: name.to_owned(), id, ..Host::default() };
        Join { rank: None, node: None, boot_id, host, named_id: Some(format!("by name {name}")) }
    }

    #[test]
    fn member_gets_no_id_of_another_host() {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("s.db")).unwrap();
        let mut run = fathom_record::Document::fixture();
        run.records.clear();
        (run.host.name, run.host.id) = ("db1".to_owned(), Some("id of db1".to_owned()));
        store.import(&run).unwrap();
        let here = Host { name: "head".to_owned(), id: Some("own".to_owned()), ..Host::default() };
        let known = KnownHosts { here, boot_id: "boot".to_owned(), store: Some(store) };
        for (mut same, is_apart) in [
            (join("head", Some("own"), "boot"), false),
            (join("evil", Some("own"), "boot"), true),
            (join("head", Some("own"), "other boot"), true),
            (join("head", Some("own"), ""), true),
            // Without an id, the name takes its place.
            (join("own", None, "other boot"), true),
            (join("db1", Some("id of db1"), "any"), false),
            (join("evil", Some("id of db1"), "any"), true),
            (join("new", Some("new"), "any"), false),
        ] {
            let before = same.clone();
            let warning = known.examine(&mut same, true).unwrap();
            assert_eq!(warning.is_some(), is_apart, "{before:?}");
            let id = if is_apart { &before.named_id } else { &before.host.id };
            assert_eq!(same.host.id, *id);
        }
        let elsewhere = known.examine(&mut join("head", Some("own"), "boot"), false).unwrap();
        assert!(elsewhere.is_some());
        for id in ["own", "id of db1"] {
            let by_name = Join { named_id: Some(id.to_owned()), ..join("evil", Some("x"), "any") };
            let no_other = Join { named_id: None, ..join("evil", Some(id), "any") };
            for mut join in [by_name, no_other] {
                let refused = known.examine(&mut join, true).unwrap_err();
                assert!(refused.ends_with("name it by FATHOM_HOST"), "{refused}");
            }
        }
    }
}
