package Hymt::Metrics;

# Prometheus' text format 0.0.4, read strictly: each line that is not exactly as
# it should be is a fault.
#
#   my $m = Hymt::Metrics->new($text);
#   is(join("\n", $m->faults()), '', 'the format');
#   is($m->value('hymt_requests_total', api => 'native', code => 200), 3);

use strict;
use warnings;


sub new {
    my ($class, $text) = @_;

    my $self = bless { faults => [], type => {}, help => {}, samples => [],
                       seen => {} }, $class;

    $self->fault('no newline at the end') if $text !~ /\n\z/;

    my $family = '';

    for my $line (split /\n/, $text, -1) {
        next if $line eq '';

        $family = $self->line($line, $family);
    }

    $self->check_histograms();

    return $self;
}


sub faults { return @{$_[0]->{faults}} }
sub fault  { push @{$_[0]->{faults}}, $_[1] }

# Names of all families.
sub families { return sort keys %{$_[0]->{type}} }
sub type     { return $_[0]->{type}{$_[1]} }


# Samples, { name, labels, value }, of a name that have these labels.
sub find {
    my ($self, $name, %labels) = @_;

    return grep {
        my $s = $_;

        $s->{name} eq $name
            && !grep { !defined $s->{labels}{$_}
                       || $s->{labels}{$_} ne $labels{$_} } keys %labels;
    } @{$self->{samples}};
}


# The sum of those; undef without any.
sub value {
    my ($self, $name, %labels) = @_;

    my $sum;

    $sum = ($sum || 0) + $_->{value} for $self->find($name, %labels);

    return $sum;
}


# Reads a line; the family that the next one may belong to.
sub line {
    my ($self, $line, $family) = @_;

    my $name = qr/[a-zA-Z_:][a-zA-Z0-9_:]*/;

    if ($line =~ /^# HELP ($name) (\S.*)$/) {
        $self->fault("HELP twice: $1") if $self->{help}{$1}++;
        return $1;
    }

    if ($line =~ /^# TYPE ($name) (counter|gauge|histogram)$/) {
        my ($of, $type) = ($1, $2);

        $self->fault("TYPE twice: $of") if $self->{type}{$of};
        $self->fault("TYPE without HELP before: $of") if $family ne $of;
        $self->fault("a counter that is no _total: $of")
            if $type eq 'counter' && $of !~ /_total$/;

        $self->{type}{$of} = $type;
        return $of;
    }

    if ($line !~ /^($name)(?:\{(.*)\})? (-?[0-9]+(?:\.[0-9]+)?)$/) {
        $self->fault("no sample: $line");
        return $family;
    }

    my %sample = (name => $1, value => $3, labels => {});

    $self->labels(\%sample, $2, $line) if defined $2;
    $self->sample(\%sample, $line, $family);

    return $family;
}


sub labels {
    my ($self, $sample, $text, $line) = @_;

    while ($text =~ /\G([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^\\"]|\\[\\"n])*)"(,|$)/gc)
    {
        my ($key, $value, $more) = ($1, $2, $3);

        $value =~ s/\\(.)/$1 eq 'n' ? "\n" : $1/ge;

        $self->fault("a label twice: $line")
            if exists $sample->{labels}{$key};

        $sample->{labels}{$key} = $value;

        return if $more eq '';
    }

    $self->fault("bad labels: $line");
}


sub sample {
    my ($self, $sample, $line, $family) = @_;

    my $of = $sample->{name};
    my $type = $self->{type}{$family} || '';

    $of =~ s/_(?:bucket|sum|count)$// if $type eq 'histogram';

    $self->fault("not below its TYPE: $line") if $of ne $family || !$type;
    $self->fault("a histogram's own name: $line")
        if $type eq 'histogram' && $of eq $sample->{name};
    $self->fault("less than 0: $line") if $sample->{value} < 0;

    my $id = join "\0", $sample->{name},
                  map { "$_=$sample->{labels}{$_}" }
                  sort keys %{$sample->{labels}};

    $self->fault("twice: $line") if $self->{seen}{$id}++;

    push @{$self->{samples}}, $sample;
}


# Buckets grow, in value and in bound, up to +Inf, which is the count.
sub check_histograms {
    my ($self) = @_;

    for my $family (grep { $self->{type}{$_} eq 'histogram' }
                    $self->families())
    {
        my %series;

        for my $s (grep { $_->{name} =~ /^\Q$family\E_(?:bucket|sum|count)$/ }
                   @{$self->{samples}})
        {
            my %labels = %{$s->{labels}};
            my $le = delete $labels{le};
            my $id = join ',', map { "$_=$labels{$_}" } sort keys %labels;

            my ($part) = $s->{name} =~ /_(bucket|sum|count)$/;

            $self->fault("le where it does not belong: $family\{$id}")
                if defined $le != ($part eq 'bucket');

            if ($part eq 'bucket') {
                push @{$series{$id}{bucket}}, [$le, $s->{value}];

            } else {
                $series{$id}{$part} = $s->{value};
            }
        }

        $self->check_histogram("$family\{$_}", $series{$_})
            for sort keys %series;
    }
}


sub check_histogram {
    my ($self, $name, $h) = @_;

    my @buckets = @{$h->{bucket} || []};
    my ($bound, $value) = (-1, 0);

    for (@buckets) {
        my ($le, $n) = @$_;

        $self->fault("$name: bounds do not grow at $le")
            if $le ne '+Inf' && $le <= $bound;
        $self->fault("$name: falls at $le") if $n < $value;

        ($bound, $value) = ($le, $n);
    }

    $self->fault("$name: no +Inf at the end")
        if !@buckets || $buckets[-1][0] ne '+Inf';
    $self->fault("$name: no sum or count")
        if !defined $h->{sum} || !defined $h->{count};
    $self->fault("$name: count is not +Inf's")
        if @buckets && ($h->{count} // -1) != $buckets[-1][1];
}


1;
