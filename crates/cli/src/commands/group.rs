//! Groups of runs for commands that judge, compare or draw many hosts.

use std::collections::{BTreeMap, BTreeSet};

use fathom_analysis::fleet::{FleetLimits, FleetRuns};
use fathom_metric::Entry;
use fathom_probes::REGISTRY;
use fathom_record::Document;

use super::stored_run;
use crate::arguments::StoreArguments;

/// The runs of all these names, each once, as they are judged: a thousand of them are held at once.
pub(super) fn judged(names: &[String], store: &StoreArguments) -> anyhow::Result<FleetRuns> {
    let (mut runs, mut ids) = (FleetRuns::default(), BTreeSet::new());
    for name in names {
        stored_run::each_of_group(name, false, store, &mut |run| {
            if ids.insert(run.run.id.clone()) {
                runs.push(&run);
            }
            Ok(())
        })?;
    }
    Ok(runs)
}

/// The same whole, without raw samples.
pub(super) fn runs(names: &[String], store: &StoreArguments) -> anyhow::Result<Vec<Document>> {
    let mut runs: BTreeMap<String, Document> = BTreeMap::new();
    for name in names {
        let of_name = stored_run::documents_of_group(name, false, store)?.into_iter();
        runs.extend(of_name.map(|run| (run.run.id.clone(), run)));
    }
    Ok(runs.into_values().collect())
}

/// The noise limits of all metrics.
pub(super) fn noise_limits() -> FleetLimits {
    let abouts = REGISTRY.entries().iter().map(Entry::about);
    abouts.map(|about| (about.id, about.noise_limit)).collect()
}
