//! CPU facts from the `cpuid` instruction.

use fathom_record::host::Cache;

/// Fields that the CPU leaves at 0 are absent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cpuid {
    pub(crate) vendor: Option<String>,
    pub(crate) brand: Option<String>,
    pub(crate) family: Option<u32>,
    pub(crate) model_number: Option<u32>,
    pub(crate) stepping: Option<u32>,
    /// Leaf 0x16.
    pub(crate) base_hz: Option<f64>,
    /// Leaf 0x16.
    pub(crate) boost_hz: Option<f64>,
    /// Leaf 0x15.
    pub(crate) tsc_hz: Option<f64>,
    /// Leaf 0x4000_0010 of a hypervisor.
    pub(crate) tsc_hz_by_hypervisor: Option<f64>,
    pub(crate) hypervisor: bool,
    pub(crate) hypervisor_name: Option<String>,
    /// Whether KVM reports steal to this guest.
    pub(crate) kvm_reports_steal: bool,
    pub(crate) caches: Vec<Cache>,
}

impl Cpuid {
    /// Whether the kernel's steal counter is valid. Under KVM it requires a feature bit; Linux has
    /// no steal clock for an emulator (QEMU without KVM), Hyper-V and bhyve.
    pub(crate) fn reports_steal(&self) -> bool {
        match self.hypervisor_name.as_deref().filter(|_| self.hypervisor) {
            Some("kvm") => self.kvm_reports_steal,
            Some("qemu" | "hyperv" | "bhyve") => false,
            _ => true,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn read() -> Option<Self> {
        None
    }

    #[cfg(target_arch = "x86_64")]
    pub(crate) fn read() -> Option<Self> {
        Some(x86::read())
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use raw_cpuid::{CacheType, CpuId, CpuIdReaderNative, Hypervisor, HypervisorInfo, cpuid};

    use super::{Cache, Cpuid};

    /// First leaf of KVM if it emulates Hyper-V.
    const KVM_BEHIND_HYPERV: u32 = 0x4000_0100;

    /// `KVM_FEATURE_STEAL_TIME`, Documentation/virt/kvm/x86/cpuid.rst.
    const STEAL_TIME_BIT: u32 = 1 << 5;

    pub(super) fn read() -> Cpuid {
        let cpuid = CpuId::new();
        let features = cpuid.get_feature_info();
        let text = |text: &str| {
            let clean = text.trim().replace(fathom_record::is_hidden, " ");
            (!clean.is_empty()).then_some(clean)
        };
        let mut facts = Cpuid {
            vendor: cpuid.get_vendor_info().and_then(|vendor| text(vendor.as_str())),
            brand: cpuid.get_processor_brand_string().and_then(|brand| text(brand.as_str())),
            family: features.as_ref().map(|info| u32::from(info.family_id())),
            model_number: features.as_ref().map(|info| u32::from(info.model_id())),
            stepping: features.as_ref().map(|info| u32::from(info.stepping_id())),
            hypervisor: features.as_ref().is_some_and(raw_cpuid::FeatureInfo::has_hypervisor),
            tsc_hz: cpuid.get_tsc_info().and_then(|tsc| tsc.tsc_frequency()).map(|hz| hz as f64),
            caches: caches(&cpuid),
            ..Cpuid::default()
        };
        if let Some(info) = cpuid.get_processor_frequency_info() {
            let hz = |mhz: u16| (mhz > 0).then(|| f64::from(mhz) * 1e6);
            facts.base_hz = hz(info.processor_base_frequency());
            facts.boost_hz = hz(info.processor_max_frequency());
        }
        if let Some(info) = cpuid.get_hypervisor_info() {
            let hz = info.tsc_frequency().filter(|&khz| khz > 0).map(|khz| f64::from(khz) * 1e3);
            facts.tsc_hz_by_hypervisor = hz;
            let (name, leaf) = hypervisor(&info);
            facts.kvm_reports_steal =
                name.as_deref() == Some("kvm") && cpuid!(leaf + 1, 0).eax & STEAL_TIME_BIT != 0;
            facts.hypervisor_name = name;
        }
        facts
    }

    /// The hypervisor's name and its first leaf, which differs if KVM emulates Hyper-V.
    fn hypervisor(info: &HypervisorInfo<CpuIdReaderNative>) -> (Option<String>, u32) {
        let mut leaf = 0x4000_0000;
        let name = match info.identify() {
            Hypervisor::KVM => "kvm",
            Hypervisor::Xen => "xen",
            Hypervisor::VMware => "vmware",
            Hypervisor::HyperV if is_kvm(KVM_BEHIND_HYPERV) => {
                leaf = KVM_BEHIND_HYPERV;
                "kvm"
            }
            Hypervisor::HyperV => "hyperv",
            Hypervisor::QEMU => "qemu",
            Hypervisor::Bhyve => "bhyve",
            Hypervisor::QNX => "qnx",
            Hypervisor::ACRN => "acrn",
            Hypervisor::Unknown(ebx, ecx, edx) => {
                return (signature([ebx, ecx, edx]), leaf);
            }
        };
        (Some(name.to_owned()), leaf)
    }

    fn is_kvm(leaf: u32) -> bool {
        let registers = cpuid!(leaf, 0);
        let words = [registers.ebx, registers.ecx, registers.edx];
        signature(words).as_deref() == Some("kvmkvmkvm")
    }

    /// The signature of 12 bytes in lower case.
    fn signature(words: [u32; 3]) -> Option<String> {
        let word: String = words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .filter(u8::is_ascii_graphic)
            .map(|byte| char::from(byte).to_ascii_lowercase())
            .collect();
        (!word.is_empty()).then_some(word)
    }

    fn caches(cpuid: &CpuId<CpuIdReaderNative>) -> Vec<Cache> {
        let Some(parameters) = cpuid.get_cache_parameters() else {
            return Vec::new();
        };
        // Bounded, because a broken hypervisor might not end the list.
        parameters
            .take(16)
            .filter_map(|cache| {
                let kind = match cache.cache_type() {
                    CacheType::Data => "data",
                    CacheType::Instruction => "instruction",
                    CacheType::Unified => "unified",
                    CacheType::Null | CacheType::Reserved => return None,
                };
                let lines = cache.associativity() * cache.physical_line_partitions();
                Some(Cache {
                    level: u32::from(cache.level()),
                    kind: kind.to_owned(),
                    size_bytes: (lines * cache.sets() * cache.coherency_line_size()) as u64,
                    line_bytes: u32::try_from(cache.coherency_line_size()).ok(),
                    ways: u32::try_from(cache.associativity()).ok(),
                    shared_by: Vec::new(),
                })
            })
            .collect()
    }
}
