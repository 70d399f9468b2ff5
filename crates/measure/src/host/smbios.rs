//! Memory modules from the SMBIOS table: structures of type 17, "Memory Device".
//!
//! Offsets and encodings as in DMTF DSP0134, version 3.7, section 7.18. Every read is checked
//! against the length of the structure, which is shorter in older firmware, and of the table.
//!
//! Not with `smbios-lib` (0.9.4), which would replace 50 lines here by 25,000. Not with `dmidecode`
//! (1.0.1), which needs the entry point, omits modules with damaged strings, and does not know HBM3
//! and the extended rate.

use fathom_record::host::MemoryModule;

const MEMORY_DEVICE: u8 = 17;
const END_OF_TABLE: u8 = 127;

/// Bytes of a structure's header: type, length, handle.
const HEADER_BYTES: usize = 4;

/// The modules of a table, without empty slots and modules of unknown size.
pub(crate) fn modules(table: &[u8]) -> Vec<MemoryModule> {
    let mut modules = Vec::new();
    let mut rest = table;
    while let Some((structure, after)) = next(rest) {
        match structure.formatted[0] {
            MEMORY_DEVICE => modules.extend(module(&structure)),
            END_OF_TABLE => break,
            _ => {}
        }
        rest = after;
    }
    modules
}

/// A structure: its formatted part, and the strings after it.
struct Structure<'a> {
    formatted: &'a [u8],
    strings: &'a [u8],
}

/// The first structure of a table and the rest. `None` if it is truncated. A structure has at least
/// six bytes, so that iteration ends.
fn next(table: &[u8]) -> Option<(Structure<'_>, &[u8])> {
    let length = usize::from(*table.get(1)?);
    if length < HEADER_BYTES {
        return None;
    }
    let formatted = table.get(..length)?;
    let tail = &table[length..];
    let end = tail.windows(2).position(|pair| pair == [0, 0])?;
    Some((Structure { formatted, strings: &tail[..end] }, &tail[end + 2..]))
}

impl Structure<'_> {
    fn byte(&self, offset: usize) -> Option<u8> {
        self.formatted.get(offset).copied()
    }

    fn word(&self, offset: usize) -> Option<u16> {
        Some(u16::from_le_bytes([self.byte(offset)?, self.byte(offset + 1)?]))
    }

    /// A double word whose top bit is reserved. 0 is unknown.
    fn extended(&self, offset: usize) -> Option<u32> {
        let high = self.word(offset + 2)? & 0x7fff;
        Some(u32::from(self.word(offset)?) | u32::from(high) << 16).filter(|&value| value > 0)
    }

    /// The string whose number, from 1, is at an offset. 0 is no string.
    fn string(&self, offset: usize) -> Option<String> {
        let number = usize::from(self.byte(offset)?).checked_sub(1)?;
        let bytes = self.strings.split(|&byte| byte == 0).nth(number)?;
        let text = String::from_utf8_lossy(bytes).replace(fathom_record::is_hidden, " ");
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

fn module(device: &Structure<'_>) -> Option<MemoryModule> {
    let slot = [device.string(0x11), device.string(0x10)];
    Some(MemoryModule {
        // Bank and device locator: the latter alone repeats on machines with several sockets.
        slot: slot.into_iter().flatten().collect::<Vec<_>>().join(" "),
        size_bytes: size_bytes(device)?,
        kind: device.byte(0x12).and_then(kind).map(str::to_owned),
        transfers_per_s: configured(device).map(|millions| f64::from(millions) * 1e6),
    })
}

fn size_bytes(device: &Structure<'_>) -> Option<u64> {
    let bytes = match device.word(0x0c)? {
        0xffff => None,
        // The extended field has the size in MiB.
        0x7fff => Some(u64::from(device.extended(0x1c)?) << 20),
        size if size & 0x8000 != 0 => Some(u64::from(size & 0x7fff) << 10),
        size => Some(u64::from(size) << 20),
    };
    bytes.filter(|&bytes| bytes > 0)
}

/// The configured rate in MT/s, not the maximum rate.
fn configured(device: &Structure<'_>) -> Option<u32> {
    match device.word(0x20)? {
        0 => None,
        0xffff => device.extended(0x58),
        rate => Some(u32::from(rate)),
    }
}

/// Table 78 of DSP0134.
fn kind(code: u8) -> Option<&'static str> {
    Some(match code {
        0x03 => "DRAM",
        0x07 => "RAM",
        0x0f => "SDRAM",
        0x12 => "DDR",
        0x13 => "DDR2",
        0x14 => "DDR2 FB-DIMM",
        0x18 => "DDR3",
        0x1a => "DDR4",
        0x1b => "LPDDR",
        0x1c => "LPDDR2",
        0x1d => "LPDDR3",
        0x1e => "LPDDR4",
        0x1f => "non-volatile",
        0x20 => "HBM",
        0x21 => "HBM2",
        0x22 => "DDR5",
        0x23 => "LPDDR5",
        0x24 => "HBM3",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A structure with bytes at offsets, and strings.
    fn structure(kind: u8, length: u8, at: &[(usize, &[u8])], strings: &[&str]) -> Vec<u8> {
        let mut bytes = vec![0; usize::from(length)];
        bytes[0] = kind;
        bytes[1] = length;
        for (offset, value) in at {
            bytes[*offset..offset + value.len()].copy_from_slice(value);
        }
        for string in strings {
            bytes.extend(string.bytes());
            bytes.push(0);
        }
        bytes.extend(if strings.is_empty() { &[0, 0][..] } else { &[0][..] });
        bytes
    }

    fn ddr5() -> Vec<u8> {
        // 48 GiB need the extended size.
        let size = 49_152_u32.to_le_bytes();
        let at: &[(usize, &[u8])] = &[
            (0x0c, &[0xff, 0x7f]),
            (0x10, &[1]),
            (0x11, &[2]),
            (0x12, &[0x22]),
            (0x15, &[0xe0, 0x15]),
            (0x1c, &size),
            (0x20, &[0xc0, 0x12]),
        ];
        structure(17, 0x5c, at, &["DIMM 0", "P0 CHANNEL A"])
    }

    #[test]
    fn modules_are_found_between_other_structures() {
        let empty = structure(17, 0x28, &[(0x10, &[1])], &["DIMM 1"]);
        let old = structure(17, 0x1b, &[(0x0c, &[0x00, 0x08]), (0x12, &[0x13])], &[]);
        let end = structure(127, 4, &[], &[]);
        let ghost = ddr5();
        let table = [structure(0, 0x18, &[], &["bios"]), ddr5(), empty, old, end, ghost].concat();
        let found = modules(&table);
        let first = MemoryModule {
            slot: "P0 CHANNEL A DIMM 0".to_owned(),
            size_bytes: 48 << 30,
            kind: Some("DDR5".to_owned()),
            transfers_per_s: Some(4800e6),
        };
        let second = MemoryModule {
            size_bytes: 2 << 30,
            kind: Some("DDR2".to_owned()),
            ..MemoryModule::default()
        };
        assert_eq!(found, [first, second]);
    }

    #[test]
    fn small_and_fast_modules_use_the_other_encodings() {
        let reserved_bit = 1 << 31;
        let rate = (10_000_u32 | reserved_bit).to_le_bytes();
        let at: &[(usize, &[u8])] = &[(0x0c, &[0x00, 0x82]), (0x20, &[0xff, 0xff]), (0x58, &rate)];
        let found = modules(&structure(17, 0x5c, at, &[]));
        assert_eq!((found[0].size_bytes, found[0].transfers_per_s), (512 << 10, Some(1e10)));
    }

    #[test]
    fn truncated_table_is_read_up_to_its_end() {
        let table = [ddr5(), ddr5()].concat();
        for length in 0..table.len() {
            let whole = length / (table.len() / 2);
            assert_eq!(modules(&table[..length]).len(), whole, "cut at {length}");
        }
    }
}
