/*
 * trajectory_records.c: records in a trainer's hands, for CPython.
 *
 * A trainer takes a hundred thousand small records a second and looks at four arrays of each. What
 * the core says of a record stays as it is, in C, until somebody asks; and what keeps a record's
 * room taken while an array of it lives is an object of a few words.
 */
#include "calls.h"

#include <stddef.h>
#include <structmember.h>

/* --- a record's room -------------------------------------------------------------------------- */

/* Whatever array shows a record holds this; its end is the release. */
typedef struct {
    PyObject base;
    lk_traj_reader *reader;
    PyObject *keeper; /* owns the reader and the mapping; has the list `late` */
    uint32_t ring;
    uint64_t ticket;
} RecordHold;

static PyTypeObject *hold_type;

/* Another thread is inside the reader: leave the release to it. */
static void leave_to_others(const RecordHold *self) {
    PyObject *late = PyObject_GetAttrString(self->keeper, "late");
    PyObject *entry =
        Py_BuildValue("kK", (unsigned long)self->ring, (unsigned long long)self->ticket);
    PyObject *done =
        late != NULL && entry != NULL ? PyObject_CallMethod(late, "append", "(O)", entry) : NULL;
    if (done == NULL) {
        PyErr_WriteUnraisable(self->keeper);
    }
    Py_XDECREF(done);
    Py_XDECREF(entry);
    Py_XDECREF(late);
}

static void hold_dealloc(PyObject *object) {
    RecordHold *self = (RecordHold *)object;
    if (self->keeper != NULL) {
        if (lk_traj_release(self->reader, self->ring, self->ticket) == LK_E_CONCURRENT) {
            PyObject *kind;
            PyObject *value;
            PyObject *traceback;
            PyErr_Fetch(&kind, &value, &traceback);
            leave_to_others(self);
            PyErr_Restore(kind, value, traceback);
        }
        Py_DECREF(self->keeper);
    }
    free_object(object);
}

/* --- a record --------------------------------------------------------------------------------- */

typedef struct {
    PyObject base;
    struct lk_traj_record about;
    struct lk_traj_array *arrays; /* one for each field of the schema */
    Py_ssize_t count;
    lk_traj_reader *reader;
    PyObject *keeper;
    PyObject *places; /* name -> (index, dtype, shape of a row, ragged) */
    PyObject *hold;   /* NULL before the record is handed out, and once it was released */
} TakenRecord;

/* A new reference to what keeps the room taken; NULL if nothing does. */
static PyObject *hold_of(TakenRecord *self) {
    PyObject *hold;
    WITH_OBJECT(self);
    hold = Py_XNewRef(self->hold);
    DONE_WITH_OBJECT();
    return hold;
}

/* The record at one place of what lk_traj_take filled in. */
static PyObject *copy_record(PyTypeObject *type, const struct lk_traj_record *about,
                             const struct lk_traj_array *arrays, PyObject *places, PyObject *keeper,
                             lk_traj_reader *reader) {
    TakenRecord *self = (TakenRecord *)new_object(type);
    if (self == NULL) {
        return NULL;
    }
    Py_ssize_t count = PyDict_Size(places);
    self->arrays = PyMem_Malloc((size_t)count * sizeof *arrays);
    if (self->arrays == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    memcpy(self->arrays, arrays, (size_t)count * sizeof *arrays);
    self->count = count;
    self->about = *about;
    self->reader = reader;
    self->keeper = Py_NewRef(keeper);
    self->places = Py_NewRef(places);
    return (PyObject *)self;
}

/* copy_records(type, keeper, places, reader, records, arrays, count): a list of what was taken.
 * None of them keeps its room yet: a record that nobody was given comes again with the next reader.
 */
static PyObject *copy_records(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *type;
    PyObject *keeper;
    PyObject *places;
    PyObject *addresses[3];
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "O!OO!OOOn:copy_records", &PyType_Type, &type, &keeper,
                          &PyDict_Type, &places, &addresses[0], &addresses[1], &addresses[2],
                          &count)) {
        return NULL;
    }
    lk_traj_reader *reader = PyLong_AsVoidPtr(addresses[0]);
    const struct lk_traj_record *records = PyLong_AsVoidPtr(addresses[1]);
    const struct lk_traj_array *arrays = PyLong_AsVoidPtr(addresses[2]);
    if (PyErr_Occurred() != NULL) {
        return NULL;
    }
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        PyObject *record = copy_record((PyTypeObject *)type, &records[i],
                                       &arrays[i * PyDict_Size(places)], places, keeper, reader);
        if (record == NULL) {
            Py_CLEAR(list);
        } else {
            PyList_SetItem(list, i, record);
        }
    }
    return list;
}

/* From here on the record keeps its room, and its end gives it back. */
static bool hand_out(TakenRecord *self) {
    RecordHold *hold = (RecordHold *)new_object(hold_type);
    if (hold == NULL) {
        return false;
    }
    hold->reader = self->reader;
    hold->keeper = Py_NewRef(self->keeper);
    hold->ring = self->about.ring;
    hold->ticket = self->about.ticket;
    self->hold = (PyObject *)hold;
    return true;
}

static PyObject *record_hand_out(PyObject *object, PyObject *Py_UNUSED(none)) {
    return hand_out((TakenRecord *)object) ? Py_NewRef(object) : NULL;
}

/* hand_out_records(records): a list that copy_records made, and that nobody else has yet. */
static PyObject *hand_out_records(PyObject *Py_UNUSED(module), PyObject *records) {
    Py_ssize_t count = PyList_Size(records);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!hand_out((TakenRecord *)PyList_GetItem(records, i))) {
            return NULL;
        }
    }
    if (count < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *record_release(PyObject *object, PyObject *Py_UNUSED(none)) {
    TakenRecord *self = (TakenRecord *)object;
    PyObject *hold;
    WITH_OBJECT(self);
    hold = self->hold;
    self->hold = NULL;
    DONE_WITH_OBJECT();
    Py_XDECREF(hold);
    Py_RETURN_NONE;
}

static PyObject *record_released(PyObject *object, void *Py_UNUSED(closure)) {
    PyObject *hold = hold_of((TakenRecord *)object);
    Py_XDECREF(hold);
    return PyBool_FromLong(hold == NULL);
}

static PyObject *record_session(PyObject *object, void *Py_UNUSED(closure)) {
    const TakenRecord *self = (const TakenRecord *)object;
    return Py_BuildValue("kK", (unsigned long)self->about.ring,
                         (unsigned long long)self->about.session);
}

/* An array over a part of the record. */
static PyObject *show(PyObject *hold, const struct lk_traj_array *array, PyObject *dtype,
                      PyObject *row_shape, int ragged) {
    npy_intp shape[DIMENSIONS_MOST + 1];
    int dimensions = 0;
    if (ragged) {
        shape[dimensions++] = (npy_intp)array->rows;
    }
    Py_ssize_t more = PyTuple_Size(row_shape);
    for (Py_ssize_t i = 0; i < more && i < DIMENSIONS_MOST; i++) {
        shape[dimensions++] = PyLong_AsSsize_t(PyTuple_GetItem(row_shape, i));
    }
    Py_INCREF(dtype); /* numpy takes over this reference, and the one to the base */
    PyObject *view =
        PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)dtype, dimensions, shape, NULL,
                             (void *)array->data, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED, NULL);
    if (view != NULL && PyArray_SetBaseObject((PyArrayObject *)view, Py_NewRef(hold)) != 0) {
        Py_CLEAR(view);
    }
    return view;
}

/* record[name]. The addresses are the core's, which has checked them. */
static PyObject *record_subscript(PyObject *object, PyObject *name) {
    TakenRecord *self = (TakenRecord *)object;
    PyObject *place = PyDict_GetItemWithError(self->places, name); /* nobody changes that dict */
    if (place == NULL) {
        if (PyErr_Occurred() == NULL) {
            PyErr_SetObject(PyExc_KeyError, name);
        }
        return NULL;
    }
    const struct lk_traj_array *array = &self->arrays[PyLong_AsSsize_t(PyTuple_GetItem(place, 0))];
    if (array->rows == ABSENT) {
        PyErr_SetObject(PyExc_KeyError, name);
        return NULL;
    }
    PyObject *hold = hold_of(self);
    if (hold == NULL) {
        return PyObject_CallMethod(object, "_refuse", NULL);
    }
    PyObject *view = show(hold, array, PyTuple_GetItem(place, 1), PyTuple_GetItem(place, 2),
                          PyTuple_GetItem(place, 3) == Py_True);
    Py_DECREF(hold);
    return view;
}

/* What the producer said beside the arrays. Bytes as they are, everything else is for Python. */
static PyObject *record_meta(PyObject *object, void *Py_UNUSED(closure)) {
    TakenRecord *self = (TakenRecord *)object;
    if (self->about.metadata_size == 0) {
        Py_RETURN_NONE;
    }
    PyObject *hold = hold_of(self);
    if (hold == NULL) {
        return PyObject_CallMethod(object, "_refuse", NULL);
    }
    const char *metadata = self->about.metadata;
    Py_ssize_t size = (Py_ssize_t)self->about.metadata_size;
    PyObject *said = NULL;
    if (metadata[0] == 'b') { /* as in metadata.py */
        said = PyBytes_FromStringAndSize(metadata + 1, size - 1);
    } else {
        said = PyObject_CallMethod(object, "_decode", "(y#)", metadata, size);
    }
    Py_DECREF(hold);
    return said;
}

/* The field at an index as (address, rows); rows is -1 where the record does not have it. */
static PyObject *record_place(PyObject *object, PyObject *index) {
    const TakenRecord *self = (const TakenRecord *)object;
    Py_ssize_t i = PyLong_AsSsize_t(index);
    if (PyErr_Occurred() != NULL) {
        return NULL;
    }
    if (i < 0 || i >= self->count) {
        PyErr_SetString(PyExc_IndexError, "no such field");
        return NULL;
    }
    const struct lk_traj_array *array = &self->arrays[i];
    return Py_BuildValue("KL", (unsigned long long)(uintptr_t)array->data,
                         array->rows == ABSENT ? -1 : (long long)array->rows);
}

static void record_dealloc(PyObject *object) {
    TakenRecord *self = (TakenRecord *)object;
    Py_XDECREF(self->hold);
    Py_XDECREF(self->keeper);
    Py_XDECREF(self->places);
    PyMem_Free(self->arrays);
    free_object(object);
}

/* --- the module ------------------------------------------------------------------------------- */

static PyType_Slot hold_slots[] = {
    {Py_tp_doc, "The room of a record in a trajectory lane; its end gives it back."},
    {Py_tp_dealloc, hold_dealloc},
    {0, NULL},
};

static PyMethodDef record_methods[] = {
    {"_hand_out", record_hand_out, METH_NOARGS, NULL},
    {"_place", record_place, METH_O, NULL},
    {"release", record_release, METH_NOARGS,
     "Say that this record is done with. Releasing twice is allowed."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef record_members[] = {
    {"producer", T_UINT, offsetof(TakenRecord, about.producer_pid), READONLY,
     "The pid of the process that put it."},
    {"number", T_ULONGLONG, offsetof(TakenRecord, about.number), READONLY,
     "1 for a producer's first record, then one more each."},
    {"timestamp_ns", T_ULONGLONG, offsetof(TakenRecord, about.timestamp_ns), READONLY,
     "When it was put, by ``time.monotonic_ns()``."},
    {"_places", T_OBJECT_EX, offsetof(TakenRecord, places), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef record_properties[] = {
    {"meta", record_meta, NULL, "The metadata: bytes, or whatever JSON said; None for none.", NULL},
    {"session", record_session, NULL,
     "One producer's stay; with ``number`` it names the record for good.", NULL},
    {"released", record_released, NULL, "Whether it was released.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot record_slots[] = {
    {Py_tp_doc, "What was taken from a lane; lanekit.TrajectoryRecord has the other methods."},
    {Py_tp_methods, record_methods},
    {Py_tp_members, record_members},
    {Py_tp_getset, record_properties},
    {Py_mp_subscript, record_subscript},
    {Py_tp_dealloc, record_dealloc},
    {0, NULL},
};

static PyType_Spec hold_spec = {"lanekit._native.RecordHold", sizeof(RecordHold), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, hold_slots};

static PyType_Spec record_spec = {
    "lanekit._native.TakenRecord", sizeof(TakenRecord), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, record_slots};

static PyMethodDef functions[] = {
    {"copy_records", copy_records, METH_VARARGS, NULL},
    {"hand_out_records", hand_out_records, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

int lk_add_trajectory_records(PyObject *module) {
    import_array1(-1);
    hold_type = (PyTypeObject *)PyType_FromSpec(&hold_spec);
    PyObject *record = PyType_FromSpec(&record_spec);
    int status = hold_type == NULL || record == NULL ||
                         PyModule_AddType(module, (PyTypeObject *)record) != 0 ||
                         PyModule_AddFunctions(module, functions) != 0
                     ? -1
                     : 0;
    Py_XDECREF(record);
    return status;
}
