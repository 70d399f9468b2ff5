//! All facts of the synthetic machines, one file a machine in `machines/`. What to look at:
//! - CPUs that are not online are not allowed; `no_turbo = 0` allows boost.
//! - A cache without a size is omitted, and so are disks of no device and hidden ones.
//! - The board writes −1 as its socket; no file says whether it is virtual.
//! - The lowest limit up to the root of the control groups applies.

use std::path::Path;

use snapbox::data::DataFormat;
use snapbox::{Assert, Data};

use crate::fixture;

#[test]
fn facts_of_every_machine_are_read() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host/machines"));
    for (name, machine) in fixture::all() {
        let facts = serde_json::to_string_pretty(&machine.read()).unwrap() + "\n";
        let file = folder.join(format!("{name}.json"));
        let golden = Data::read_from(&file, Some(DataFormat::Text)).raw();
        Assert::new().action_env("SNAPSHOTS").eq(Data::text(facts).raw(), golden);
    }
}
