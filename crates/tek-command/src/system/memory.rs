// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's features for memory, determined by trying, as libtek.so does.
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr;

/// The method to query which pages of a stack exist, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// PAGEMAP_SCAN: by stretches.
    Scan,
    /// /proc/self/pagemap: page by page.
    Pagemap,
    /// mincore(2), which does not know of pages that were swapped out.
    Mincore,
}

/// struct pm_scan_arg of <linux/fs.h>.
#[repr(C)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// The method for pages of this process, determined by trying.
pub fn pages() -> Pages {
    const PAGE_IS_PRESENT: u64 = 1 << 3;
    // _IOWR('f', 16, struct pm_scan_arg)
    const PAGEMAP_SCAN: u64 = 0xc060_6610;
    let Ok(pagemap) = File::open("/proc/self/pagemap") else { return Pages::Mincore };
    let mut region = [0u64; 3];
    let page = page_bytes() as u64;
    let start = ptr::addr_of!(region) as u64 / page * page;
    let mut arg = ScanArg {
        size: size_of::<ScanArg>() as u64,
        flags: 0,
        start,
        end: start + page,
        walk_end: 0,
        vec: region.as_mut_ptr() as u64,
        vec_len: 1,
        max_pages: 0,
        category_inverted: 0,
        category_mask: PAGE_IS_PRESENT,
        category_anyof_mask: 0,
        return_mask: PAGE_IS_PRESENT,
    };
    // SAFETY: the argument has the size that it declares, and room for one region.
    let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &mut arg) };
    if found == 1 {
        Pages::Scan
    } else {
        Pages::Pagemap
    }
}

/// Whether guard pages need no mappings of their own: MADV_GUARD_INSTALL.
pub fn has_light_guards() -> bool {
    const MADV_GUARD_INSTALL: i32 = 102;
    let page = page_bytes();
    // SAFETY: memory of its own, which no other code knows of and which goes again.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let memory = libc::mmap(ptr::null_mut(), page, libc::PROT_READ, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return false;
        }
        let installed = libc::madvise(memory, page, MADV_GUARD_INSTALL) == 0;
        libc::munmap(memory, page);
        installed
    }
}

fn page_bytes() -> usize {
    // SAFETY: takes a plain number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trying_twice_finds_the_same() {
        assert_eq!((pages(), has_light_guards()), (pages(), has_light_guards()));
        let has_pagemap = std::path::Path::new("/proc/self/pagemap").exists();
        assert_eq!(pages() == Pages::Mincore, !has_pagemap);
    }
}
