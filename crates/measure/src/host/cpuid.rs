//! What the processor says of itself through `cpuid`. On an architecture without it: nothing.

use fathom_record::host::Cache;

/// The answers. A field the processor leaves at zero is absent.
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
    /// Leaf 0x4000_0010, where a hypervisor has it.
    pub(crate) tsc_hz_by_hypervisor: Option<f64>,
    /// Whether a hypervisor says it is there.
    pub(crate) hypervisor: bool,
    /// Its name, where it has one.
    pub(crate) hypervisor_name: Option<String>,
    /// Whether a hypervisor of the KVM kind tells its guest of stolen time.
    pub(crate) kvm_tells_steal: bool,
    pub(crate) caches: Vec<Cache>,
}

impl Cpuid {
    /// Whether the kernel's count of stolen time means anything: outside a virtual machine nothing
    /// can be stolen, and under KVM only the feature bit makes the count move.
    pub(crate) fn steal_is_told(&self) -> bool {
        !self.hypervisor || self.hypervisor_name.as_deref() != Some("kvm") || self.kvm_tells_steal
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn ask() -> Option<Self> {
        None
    }

    #[cfg(target_arch = "x86_64")]
    pub(crate) fn ask() -> Option<Self> {
        Some(x86::ask())
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use raw_cpuid::{CacheType, CpuId, CpuIdReaderNative, Hypervisor, HypervisorInfo, cpuid};

    use super::{Cache, Cpuid};

    /// Base of the leaves of a hypervisor's native interface where its first is Hyper-V's.
    const KVM_BEHIND_HYPERV: u32 = 0x4000_0100;

    /// `KVM_FEATURE_STEAL_TIME`, Documentation/virt/kvm/x86/cpuid.rst.
    const STEAL_TIME_BIT: u32 = 1 << 5;

    pub(super) fn ask() -> Cpuid {
        let cpuid = CpuId::new();
        let features = cpuid.get_feature_info();
        let text = |text: &str| {
            let clean = text.trim().replace(|c: char| c.is_control(), " ");
            (!clean.is_empty()).then_some(clean)
        };
        let mut told = Cpuid {
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
            told.base_hz = hz(info.processor_base_frequency());
            told.boost_hz = hz(info.processor_max_frequency());
        }
        if let Some(info) = cpuid.get_hypervisor_info() {
            let hz = info.tsc_frequency().filter(|&khz| khz > 0).map(|khz| f64::from(khz) * 1e3);
            told.tsc_hz_by_hypervisor = hz;
            let (name, leaf) = hypervisor(&info);
            told.kvm_tells_steal =
                name.as_deref() == Some("kvm") && cpuid!(leaf + 1, 0).eax & STEAL_TIME_BIT != 0;
            told.hypervisor_name = name;
        }
        told
    }

    /// The hypervisor's name, and its first leaf. KVM may pose as Hyper-V at the first place
    /// and stand behind it.
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
        let told = cpuid!(leaf, 0);
        signature([told.ebx, told.ecx, told.edx]).as_deref() == Some("kvmkvmkvm")
    }

    /// Twelve bytes of signature as a word in lower case.
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
        let Some(told) = cpuid.get_cache_parameters() else {
            return Vec::new();
        };
        // A bound in count: a leaf that never says "no more" would be the hypervisor's mistake.
        told.take(16)
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
