// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports the changes of a killed tekd that were undone.
use crate::log;
use tek_effect::Restored;

pub fn announce(restored: &Restored) {
    let Restored { undone, gone, changed, failed } = restored;
    if undone + gone + changed > 0 {
        log::warning(&format!(
            "an earlier tekd was killed: {undone} changes were undone, {gone} were of threads that \
             have ended, {changed} were changed by others since"
        ));
    }
    failed.iter().for_each(|line| log::error(line));
}
