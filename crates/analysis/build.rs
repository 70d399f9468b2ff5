//! Compresses the collection of machines, which is read only where typical ranges are shown.

use std::io::Write as _;
use std::path::Path;
use std::{env, fs};

use flate2::Compression;
use flate2::write::DeflateEncoder;

fn main() {
    const MACHINES: &str = "../../data/typical/machines.csv";
    println!("cargo::rerun-if-changed={MACHINES}");
    let text = fs::read(MACHINES).expect("the collection is beside this file");
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&text).expect("writing to memory");
    let packed = encoder.finish().expect("writing to memory");
    let folder = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&folder).join("machines.csv.deflate"), packed).expect("cargo made it");
}
