# What is typed of a path of a file system that need not be mounted is completed by asking it.
function __onpath_paths
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    set -l at
    set -l literal
    contains -- --literal $words; and set literal --literal
    contains -- $words[2] ls stat tree cat get put mkdir touch mv ln rm; and set at $ONPATH_AT
    for i in (seq 3 (count $words))
        switch $words[$i]
            case --at
                set at $words[(math $i + 1)]
            case '--at=*'
                set at (string replace -- --at= '' $words[$i])
        end
    end
    if test -n "$at"
        onpath complete-path --at $at $literal -- $word 2>/dev/null
    else if string match -q 'onpath://*/*' -- $word
        onpath complete-path $literal -- $word 2>/dev/null
    end
end
complete -c onpath -n '__fish_seen_subcommand_from ls stat tree cat get put mkdir touch mv ln rm find du rmr chmod chown' -a '(__onpath_paths)'
