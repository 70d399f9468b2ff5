//! What `fathom --version` prints: also the licences, which a program that was copied alone would
//! be without.

use std::sync::LazyLock;

use fathom_record::SCHEMA_VERSION;

/// `0.1.0 (commit e738b3882bc9, schema 3)`
pub(super) static SHORT: LazyLock<String> = LazyLock::new(|| {
    format!("{} ({}, schema {SCHEMA_VERSION})", env!("CARGO_PKG_VERSION"), env!("FATHOM_BUILT"))
});

pub(super) static LONG: LazyLock<String> =
    LazyLock::new(|| format!("{}\n\n{LICENCES}\n{}", *SHORT, DATA.trim_end()));

const LICENCES: &str = "\
Fathom is licensed under the MIT License or the Apache License 2.0, at your
option. Its packages have the licences of its libraries in THIRD-PARTY.txt.

The typical values of published machines are from machines.csv:";

const DATA: &str = include_str!("../../../../data/typical/LICENSE");
