// Moves the committed offsets of a group: first what would happen, then, after a second word, that it happens.
import type { JSX } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, getPages, groupPath, post, statusOf, told } from "../data/api.ts";
import { poll } from "../data/poll.ts";
import { askAgain } from "../data/session.ts";
import type { Group, OffsetChanges, Offsets, PartitionOffsets } from "../data/types.ts";
import { useLoad } from "../ui/load.ts";
import { Card, Notice } from "../ui/parts.tsx";
import { GroupHead } from "./group/page.tsx";
import { Confirm, Preview } from "./offsets_preview.tsx";
import { LastMoves } from "./offsets_moves.tsx";
import { type OffsetsForm, type Request, requestOf, type Target, timeFields } from "./offsets_form.ts";
import { PartitionChoice } from "./offsets_choice.tsx";
import { applyOf } from "./offsets_rows.ts";

const START: OffsetsForm = { target: "earliest", number: "", time: "", ms: null, deleteNew: false, chosen: null };
const STATE_PAUSE_MS = 2000;

export function OffsetsPage(props: { groupId: string }): JSX.Element {
  const { groupId } = props;
  const [round, setRound] = useState(0);
  const load = useCallback(async (key: string, signal: AbortSignal) => {
    const pages = await getPages<Offsets>(key.slice(0, key.indexOf("#")), signal);
    return pages.flatMap((one) => one.partitions);
  }, []);
  const found = useLoad<PartitionOffsets[]>(`${groupPath(groupId, "/offsets")}#${round}`, load);
  // Stays when they cannot be read again: the form may have something to say about what was done.
  const known = useRef<PartitionOffsets[] | null>(null);
  known.current = found.value ?? known.current;
  const isUnknown = found.status === 404;
  const readAgain = () => setRound((before) => before + 1);
  return (
    <div class="page offsets">
      <GroupHead groupId={groupId} at="offsets" />
      <MembersNotice groupId={groupId} />
      {found.error !== null && (
        <Notice tone="error">
          {found.error}{" "}
          {!isUnknown && (
            <button type="button" onClick={readAgain}>
              Read the partitions again
            </button>
          )}
        </Notice>
      )}
      {(known.current !== null || !isUnknown) && (
        <Work groupId={groupId} partitions={known.current} failed={found.error !== null} round={round} onTried={readAgain} />
      )}
    </div>
  );
}

function MembersNotice(props: { groupId: string }): JSX.Element | null {
  const path = groupPath(props.groupId, "?limit=1"); // one item of each list will do
  const [group, setGroup] = useState<Group | null>(null);
  useEffect(() => {
    setGroup(null);
    return poll(async (signal) => {
      try {
        const found = await get<Group>(path, signal);
        if (!signal.aborted) setGroup(found);
      } catch (error) {
        // After any other error what was seen last stays.
        if (statusOf(error) === 404) setGroup(null);
      }
    }, STATE_PAUSE_MS);
  }, [path]);
  if (group === null || group.members.length === 0) return null;
  return (
    <Notice tone="warning">
      The group is {group.state}: it has members. Offsets can be moved once all of them have stopped; a preview is possible now.
    </Notice>
  );
}

interface WorkProps {
  groupId: string;
  // null: not read yet. A group may have very many, and most moves do without the list.
  partitions: PartitionOffsets[] | null;
  // They could not be read the last time.
  failed: boolean;
  round: number;
  // Something may have been written.
  onTried(): void;
}

interface Shown {
  request: Request;
  changes: OffsetChanges;
  applied: boolean;
}

function Work(props: WorkProps): JSX.Element {
  const { groupId, partitions } = props;
  const [form, setForm] = useState<OffsetsForm>(START);
  const [shown, setShown] = useState<Shown | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [working, setWorking] = useState(false);
  const [asking, setAsking] = useState(false);
  const asked = useRef(0); // the number of the last question whose answer is wanted
  const request = requestOf(groupId, form, partitions);

  const change = (next: Partial<OffsetsForm>) => {
    asked.current++; // a preview of other values must not be shown any more, nor applied
    setForm({ ...form, ...next });
    setShown(null);
    setError(null);
    setWorking(false);
  };
  const before = (ms: number) => {
    change({ target: "restore", ...timeFields(ms - 1) });
    document.getElementById("move")?.scrollIntoView({ block: "nearest" });
  };
  const preview = async (what: Request) => {
    const number = ++asked.current;
    const still = (then: () => void) => {
      if (number === asked.current) then();
    };
    setWorking(true);
    setError(null);
    try {
      const changes = await post<OffsetChanges>(what.path, what.body);
      still(() => setShown({ request: what, changes, applied: false }));
    } catch (failure) {
      still(() => {
        setShown(null);
        setError(failure);
      });
    } finally {
      still(() => setWorking(false));
    }
  };
  const apply = async (what: Shown) => {
    setWorking(true);
    setError(null);
    try {
      await post(what.request.path, { ...what.request.body, apply: applyOf(what.changes.rows) });
      setShown({ ...what, applied: true });
    } catch (failure) {
      setShown(null); // some of it may have been done, so it is not true any more
      setError(failure);
    } finally {
      setWorking(false);
      setAsking(false);
      props.onTried();
    }
  };

  return (
    <>
      <Card id="move" title="Move offsets">
        <form
          class="offsets-form"
          onSubmit={(event) => {
            event.preventDefault();
            if (typeof request !== "string") void preview(request);
          }}
        >
          <TargetFields form={form} onChange={change} />
          {form.target !== "restore" && (
            <PartitionChoice
              partitions={partitions}
              failed={props.failed}
              chosen={form.chosen}
              onChange={(chosen) => change({ chosen })}
            />
          )}
          <div class="actions">
            <button type="submit" class="primary" disabled={working || typeof request === "string"}>
              {working ? "Asking …" : "Preview"}
            </button>
            {typeof request === "string" && <span class="soft">{request}</span>}
          </div>
        </form>
      </Card>
      {error !== null && <Refusal error={error} />}
      {shown !== null && (
        <Preview changes={shown.changes} applied={shown.applied} onApply={() => setAsking(true)} working={working} />
      )}
      {shown !== null && asking && (
        <Confirm
          groupId={groupId}
          changes={shown.changes}
          working={working}
          onCancel={() => setAsking(false)}
          onApply={() => void apply(shown)}
        />
      )}
      <LastMoves groupId={groupId} round={props.round} onBefore={before} />
    </>
  );
}

// Who may only read is told so, and can come as somebody else.
function Refusal(props: { error: unknown }): JSX.Element {
  const { error } = props;
  const forbidden = statusOf(error) === 403;
  return (
    <Notice tone="error">
      {told(error)}{" "}
      {forbidden && (
        <button type="button" onClick={() => askAgain("Moving offsets takes a token with the role admin.")}>
          Sign in with another token
        </button>
      )}
    </Notice>
  );
}

const TARGETS: [Target, string, string][] = [
  ["earliest", "Earliest", "the oldest record there is: all is read again"],
  ["latest", "Latest", "the end: what has not been read is skipped"],
  ["time", "Time", "the first record at or after a time"],
  ["offset", "Offset", "the same offset in every partition"],
  ["shift", "Shift", "back (negative) or forward by a number of records"],
  ["restore", "Restore", "what the group had committed at a time, from its log"],
];

function TargetFields(props: { form: OffsetsForm; onChange(next: Partial<OffsetsForm>): void }): JSX.Element {
  const { form, onChange } = props;
  return (
    <>
      <fieldset class="targets">
        <legend>Move to</legend>
        {TARGETS.map(([target, name, words]) => (
          <label key={target}>
            <input type="radio" name="target" checked={form.target === target} onChange={() => onChange({ target })} />
            <span>
              <b>{name}</b> <span class="soft">{words}</span>
            </span>
          </label>
        ))}
      </fieldset>
      {(form.target === "time" || form.target === "restore") && (
        <label class="field">
          Time, in the time zone of this browser
          <input
            type="datetime-local"
            step="0.001"
            value={form.time}
            onInput={(event) => onChange({ time: event.currentTarget.value, ms: null })}
          />
        </label>
      )}
      {(form.target === "offset" || form.target === "shift") && (
        <label class="field">
          {form.target === "offset" ? "Offset" : "Records"}
          <input
            type="text"
            inputMode="numeric"
            value={form.number}
            onInput={(event) => onChange({ number: event.currentTarget.value })}
          />
        </label>
      )}
      {form.target === "restore" && (
        <label class="check">
          <input
            type="checkbox"
            checked={form.deleteNew}
            onChange={(event) => onChange({ deleteNew: event.currentTarget.checked })}
          />
          Delete the offsets of partitions that had none at that time
        </label>
      )}
    </>
  );
}
