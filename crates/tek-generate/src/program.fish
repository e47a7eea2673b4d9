
# Prints the words of the program that a command of tek starts, without the word at the cursor.
# Fails where the cursor is before them.
function __fish_tek_program
    set -l words (commandline -opc)
    set -e words[1]
    set -l path
    set -l valued
    while not set -q valued[1]
        set -q words[1]
        or return 1
        set path (string join ' ' -- $path $words[1])
        set -e words[1]
        switch $path
{CASES}            case '-*'
                return 1
        end
    end
    while set -q words[1]
        if test "$words[1]" = --
            string join \n -- $words[2..]
            return 0
        else if string match -q -- '-*' $words[1]
            if contains -- $words[1] $valued
                set -e words[1]
                # Its value is at the cursor.
                set -q words[1]
                or return 1
            end
        else if not contains only-after-dashes $valued
            string join \n -- $words
            return 0
        end
        set -e words[1]
    end
    # The first word of the program is at the cursor, or an option.
    contains only-after-dashes $valued
    and return 1
    not string match -q -- '-*' (commandline -ct)
end

function __fish_tek_complete_program
    set -l words (__fish_tek_program)
    complete -C (string join ' ' -- (string escape -- $words) (commandline -ct))
end

# From there on none of tek's own options is offered.
functions --copy __fish_tek_using_subcommand __fish_tek_using_own_subcommand
function __fish_tek_using_subcommand
    __fish_tek_program >/dev/null
    and return 1
    __fish_tek_using_own_subcommand $argv
end

complete -c tek -n __fish_tek_program -x -a '(__fish_tek_complete_program)'
