// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names for addresses in other processes: a thread's function and the place that created it.
use crate::elf::{Elf, Sections};
use crate::lines::{Line, Lines};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tek_abi::{printable, until_nul, Module};

/// Bytes that are read of all files together.
const MOST_BYTES: u64 = 512 << 20;

/// The demangled name of the table of functions behind a std::thread, up to the types of its
/// callable.
const STATE: (&str, &str) =
    ("{vtable(std::thread::_State_impl<std::thread::_Invoker<std::tuple<", "> > >)}");

/// The symbols of the files that were needed, each read once.
pub struct Functions {
    files: HashMap<PathBuf, Option<Elf>>,
    lines: HashMap<PathBuf, Option<Lines>>,
    budget: u64,
}

impl Default for Functions {
    fn default() -> Self {
        Self { files: HashMap::new(), lines: HashMap::new(), budget: MOST_BYTES }
    }
}

impl Functions {
    /// The name of an address of a process: a demangled function; for a std::thread, its callable.
    /// `file+0x1234`, with the address in its file, where there is no symbol or the process has
    /// mapped another file of that name. `None` for an address in no module. Printable.
    pub fn name(&mut self, modules: &[Module], address: u64) -> Option<String> {
        let (module, inside) = place_of(modules, address)?;
        Some(match self.file_of(module).and_then(|file| file.symbol_at(inside)) {
            Some((symbol, offset)) => readable(symbol, offset),
            None => unnamed(until_nul(&module.path), inside),
        })
    }

    /// The same for an address in the ELF headers of a file that is known by its path only.
    pub fn name_in(&mut self, path: &[u8], inside: u64) -> String {
        self.known_in(path, inside).unwrap_or_else(|| unnamed(path, inside))
    }

    /// The same where there is a symbol.
    pub fn known_in(&mut self, path: &[u8], inside: u64) -> Option<String> {
        // A path that does not begin with / was shortened.
        let file = path.starts_with(b"/").then(|| self.file(path)).flatten()?;
        file.symbol_at(inside).map(|(symbol, offset)| readable(symbol, offset))
    }

    /// The place of a call, by the address that it returns to: `function (file.c:88)`, or as
    /// [`Self::name`] where the file has no lines.
    pub fn call(&mut self, modules: &[Module], address: u64) -> Option<String> {
        let (module, inside) = place_of(modules, address.wrapping_sub(1))?;
        let path = until_nul(&module.path);
        if self.file_of(module).is_none() {
            return Some(unnamed(path, inside.wrapping_add(1)));
        }
        Some(self.call_in(path, inside.wrapping_add(1)))
    }

    /// The same for an address in the ELF headers of a file that is known by its path only.
    pub fn call_in(&mut self, path: &[u8], inside: u64) -> String {
        let call = inside.wrapping_sub(1);
        let file = path.starts_with(b"/").then(|| self.file(path)).flatten();
        let symbol = file.and_then(|file| file.symbol_at(call));
        let named =
            symbol.map(|(symbol, offset)| (readable(symbol, 0), readable(symbol, offset + 1)));
        let line = path.starts_with(b"/").then(|| self.line(path, call)).flatten();
        let at = line.map(|line| format!("{}:{}", printable(&line.file), line.number));
        match (named, at) {
            (Some((name, _)), Some(at)) => format!("{name} ({at})"),
            (Some((_, with_offset)), None) => with_offset,
            (None, Some(at)) => format!("{} ({at})", unnamed(path, inside)),
            (None, None) => unnamed(path, inside),
        }
    }

    fn line(&mut self, path: &[u8], inside: u64) -> Option<Line> {
        let path = PathBuf::from(OsStr::from_bytes(path));
        let read = || Lines::read(&mut Sections::open(&path, &mut self.budget)?);
        self.lines.entry(path.clone()).or_insert_with(read).as_ref()?.at(inside)
    }

    /// Whether a file defines one of these.
    pub fn has_one_of(&mut self, path: &Path, names: &[&str]) -> bool {
        let file = self.file(path.as_os_str().as_bytes());
        file.is_some_and(|file| {
            file.defined().any(|name| names.iter().any(|one| one.as_bytes() == name))
        })
    }

    /// The name that rules match: the symbol of the function that begins at an address of a
    /// process, as nm(1) prints it, or of the vtable of a std::thread's state; else `None`.
    pub fn symbol(&mut self, modules: &[Module], address: u64) -> Option<String> {
        let (module, inside) = place_of(modules, address)?;
        let file = self.file_of(module)?;
        let (symbol, offset) = file.symbol_at(inside)?;
        // Objects point two words behind the symbol of their vtable.
        let is_vtable = offset == 2 * file.word_bytes && symbol.starts_with(b"_ZTV");
        let text = std::str::from_utf8(symbol).ok().filter(|_| offset == 0 || is_vtable)?;
        Some(text.to_owned())
    }

    /// The file of a module, if it is still the one that the process has mapped.
    fn file_of(&mut self, module: &Module) -> Option<&Elf> {
        let file = self.file(until_nul(&module.path))?;
        has_build_id(module, &file.build_id).then_some(file)
    }

    fn file(&mut self, path: &[u8]) -> Option<&Elf> {
        let path = PathBuf::from(OsStr::from_bytes(path));
        let read = || Elf::read(&path, &mut self.budget);
        self.files.entry(path.clone()).or_insert_with(read).as_ref()
    }
}

/// The module of an address, and the address in its file. If two modules cover the address, the
/// first was unloaded: the later one counts.
pub fn place_of(modules: &[Module], address: u64) -> Option<(&Module, u64)> {
    let module = modules.iter().rfind(|module| (module.start..module.end).contains(&address))?;
    Some((module, address.wrapping_sub(module.bias)))
}

/// Whether a file is still the one that the process has mapped. Without a build-id on either side
/// this cannot be known, and it counts as the same.
fn has_build_id(module: &Module, build_id: &[u8]) -> bool {
    let known = module.build_id.len();
    let own = &module.build_id[..known.min(module.build_id_bytes as usize)];
    &build_id[..known.min(build_id.len())] == own
}

/// A name for an address of a file without a symbol there.
fn unnamed(path: &[u8], inside: u64) -> String {
    let name = Path::new(OsStr::from_bytes(path)).file_name().unwrap_or(OsStr::new("?"));
    format!("{}+{inside:#x}", printable(name.as_bytes()))
}

fn readable(symbol: &[u8], offset: u64) -> String {
    let name = demangled(symbol);
    if let Some(called) = called_by_thread(&name) {
        return called;
    }
    if offset == 0 {
        name
    } else {
        format!("{name}+{offset:#x}")
    }
}

fn demangled(symbol: &[u8]) -> String {
    let text = printable(symbol);
    // To the demangler a C function called `w` would be the type wchar_t.
    if !text.starts_with("_Z") && !text.starts_with("_R") {
        return text;
    }
    if let Ok(name) = rustc_demangle::try_demangle(&text) {
        // The short form, without the hash.
        return printable(format!("{name:#}").as_bytes());
    }
    let options = cpp_demangle::DemangleOptions::new().no_return_type().no_params();
    let name = cpp_demangle::Symbol::new(symbol)
        .ok()
        .and_then(|symbol| symbol.demangle_with_options(&options).ok());
    name.map_or(text, |name| printable(name.as_bytes()))
}

/// The callable in the name of a std::thread's state: the first type of its tuple; the remaining
/// types are the arguments.
fn called_by_thread(name: &str) -> Option<String> {
    let types = name.strip_prefix(STATE.0)?.strip_suffix(STATE.1)?;
    let mut depth = 0;
    let end = types.char_indices().find(|&(_, character)| {
        match character {
            '<' | '(' | '{' | '[' => depth += 1,
            '>' | ')' | '}' | ']' => depth -= 1,
            _ => {}
        }
        depth == 0 && character == ','
    });
    Some(types[..end.map_or(types.len(), |(at, _)| at)].trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn what_a_std_thread_calls_is_shown_instead_of_its_state() {
        let name = |symbol: &str| readable(symbol.as_bytes(), 16);
        let state = |types| {
            name(&format!("_ZTVNSt6thread11_State_implINS_8_InvokerISt5tupleIJ{types}EEEEEE"))
        };
        assert_eq!(state("3Gasi"), "Gas");
        assert_eq!(state("Z4mainEUlvE_"), "main::{lambda()#1}");
        assert_eq!(state("PFviEi"), "void (*)(int)");
        assert_eq!(state("M3GasFvvEPS3_"), "void (Gas::*)()");
        assert_eq!(state("3GasIiiE"), "Gas<int, int>");
        assert_eq!(name("_ZTVNSt6thread6_StateE"), "{vtable(std::thread::_State)}+0x10");
    }

    #[test]
    fn the_state_of_a_std_thread_is_a_symbol_in_programs_of_either_word_size() {
        let state = "_ZTVNSt6thread11_State_implINS_8_InvokerISt5tupleIJ3GasEEEEEE";
        for word_bytes in [4, 8] {
            let module = module(b"/nowhere/thermostat");
            let file = Elf::of(word_bytes, 0x100, state.as_bytes());
            let mut functions = Functions::default();
            functions.files.insert("/nowhere/thermostat".into(), Some(file));
            let mut is_known = |at: &u64| functions.symbol(&[module], module.bias + at).is_some();
            let known: Vec<_> = (0x100..0x120).filter(|at| is_known(at)).collect();
            assert_eq!(known, [0x100, 0x100 + 2 * word_bytes]);
        }
    }

    #[test]
    fn names_of_all_languages_are_readable_and_cannot_control_the_terminal() {
        let name = |symbol: &str| readable(symbol.as_bytes(), 0);
        assert_eq!(name("gas_loop"), "gas_loop");
        assert_eq!(name("w"), "w");
        assert_eq!(name("_Z8gas_loopPv"), "gas_loop");
        assert_eq!(name("_ZN3gas4loop17h0123456789abcdefE"), "gas::loop");
        assert_eq!(name("_ZN\x1b[2J"), "_ZN\\u{1b}[2J");
    }

    fn module(path: &[u8]) -> Module {
        let mut module = Module::new_zeroed();
        (module.start, module.end, module.bias) = (0x10_0000, u64::MAX, 0x10_0000);
        module.path[..path.len()].copy_from_slice(path);
        module
    }

    /// The module of this test, and the address of its main().
    fn own_module() -> (Module, u64) {
        let exe = std::env::current_exe().unwrap();
        let mut most = MOST_BYTES;
        let elf = Elf::read(&exe, &mut most).unwrap();
        let mut module = module(exe.as_os_str().as_bytes());
        module.build_id.copy_from_slice(&elf.build_id[..20]);
        module.build_id_bytes = 20;
        (module, elf.address_of(b"main").unwrap() + module.bias)
    }

    #[test]
    fn of_two_modules_that_cover_an_address_the_later_one_counts() {
        let ((own, main), unloaded) = (own_module(), module(b"/nowhere/unloaded.so"));
        let mut functions = Functions::default();
        assert_eq!(functions.name(&[unloaded, own], main).as_deref(), Some("main"));
        let name = functions.name(&[own, unloaded], main).unwrap();
        assert!(name.starts_with("unloaded.so+0x"), "{name}");
    }

    #[test]
    fn a_function_is_named_by_a_path_that_was_not_shortened() {
        let exe = std::env::current_exe().unwrap();
        let path = exe.as_os_str().as_bytes();
        let (module, main) = own_module();
        let mut functions = Functions::default();
        assert_eq!(functions.name_in(path, main - module.bias), "main");
        let name = functions.name_in(&path[1..], 0x12);
        assert!(name.starts_with("tek_model-") && name.ends_with("+0x12"), "{name}");
        assert_eq!(functions.name_in(b"", 0x12), "?+0x12");
    }

    #[test]
    fn a_function_is_named_unless_its_file_was_replaced_or_is_stripped() {
        let (mut module, main) = own_module();
        let mut functions = Functions::default();
        assert_eq!(functions.name(&[module], main).as_deref(), Some("main"));
        assert_eq!(functions.symbol(&[module], main).as_deref(), Some("main"));
        assert_eq!(functions.symbol(&[module], main + 1), None);
        module.build_id[0] ^= 1;
        let name = functions.name(&[module], main).unwrap();
        assert!(name.starts_with("tek_model-") && name.contains("+0x"), "{name}");
        assert_eq!(functions.name(&[module], 5), None);
        module.path[0] = b'\n';
        assert!(functions.name(&[module], main).unwrap().contains("+0x"));
    }
}
