#include "graph/product_pattern.h"

#include <gtest/gtest.h>

#include <functional>

#include "graph/lower.h"
#include "tests/support/graph_builder.h"

namespace tandem {
namespace {

constexpr DataType kF32 = DataType::kFloat32;
constexpr DataType kF16 = DataType::kFloat16;

// x and u [2, 3, 64].
class ProductPatternTest : public ::testing::Test {
 protected:
  explicit ProductPatternTest(DataType type = kF32) : type_(type) {
    b_.Input("x", type, Shape{2, 3, 64}).Input("u", type, Shape{2, 3, 64});
  }

  // y [2, 3, n] = x times a matrix of its own.
  GraphBuilder& Product(const std::string& y, int64_t n, const std::string& x = "x") {
    const int64_t k = b_.graph()[b_[x]].shape->back();
    b_.Constant("w_" + y, type_, {k, n}, seed_++).Result(y, type_, Shape{2, 3, n});
    return b_.Node("MatMul", {x, "w_" + y}, {y});
  }

  // The same in 4 bits.
  GraphBuilder& NBits(const std::string& y, int64_t n, int64_t level, const std::string& bias = "",
                      int64_t k = 64) {
    b_.Constant("w_" + y, DataType::kUint8, {n, k / 32, 16}, seed_++);
    b_.Constant("s_" + y, kF32, {n, k / 32}, seed_).Result(y, kF32, Shape{2, 3, n});
    std::vector<std::string> inputs{"x", "w_" + y, "s_" + y};
    if (!bias.empty()) inputs.insert(inputs.end(), {"", "", bias});
    return b_.Node("MatMulNBits", inputs, {y},
                   {{"K", k},
                    {"N", n},
                    {"bits", int64_t{4}},
                    {"block_size", int64_t{32}},
                    {"accuracy_level", level}},
                   "com.microsoft");
  }

  Graph Lowered() { return Lower(b_.graph()); }

  GraphBuilder b_;
  DataType type_;
  int seed_ = 1;
};

TEST_F(ProductPatternTest, ProductsOfOneActivationAreOneNode) {
  Product("q", 96);
  b_.Node("Relu", {"q"}, {"r"}).Output("r");
  Product("k", 32).Output("k");
  Product("v", 48).Output("v");
  const Graph graph = Lowered();
  EXPECT_EQ(Ops(graph), "SharedMatMul Relu");
  EXPECT_EQ(Names(graph, graph.nodes[0].inputs), "x");
  EXPECT_EQ(Names(graph, graph.nodes[0].outputs), "q k v");
  ASSERT_EQ(graph.nodes[0].matrices.size(), 3u);
  EXPECT_EQ(graph.matrices.at(graph.nodes[0].matrices[1]).n, 32);
  EXPECT_EQ(graph.matrices.at(graph.nodes[0].matrices[2]).codes->name, "w_v");
}

TEST_F(ProductPatternTest, ConstantsAreAddedToEachOfThem) {
  b_.Constant("bq", kF32, {96}).Constant("bv", kF32, {48});
  Product("q", 96).Node("Add", {"q", "bq"}, {"q2"}).Output("q2");
  Product("k", 32).Output("k");
  Product("v", 48).Node("Add", {"bv", "v"}, {"v2"}).Output("v2");
  const Graph graph = Lowered();
  ASSERT_EQ(Ops(graph), "SharedMatMul");
  EXPECT_EQ(Names(graph, graph.nodes[0].inputs), "x bq bv");
  EXPECT_EQ(Names(graph, graph.nodes[0].outputs), "q2 k v2");
  EXPECT_EQ(IntsAttribute(graph.nodes[0], "addends"), (std::vector<int64_t>{0, 2}));
}

TEST_F(ProductPatternTest, ProductsOfOtherActivationsAreApart) {
  Product("y", 96).Output("y");
  Product("z", 96, "u").Output("z");
  EXPECT_EQ(Ops(Lowered()), "SharedMatMul SharedMatMul");
}

TEST_F(ProductPatternTest, WhatIsQuantizedOtherwiseIsApart) {
  NBits("a", 64, 4).Output("a");
  NBits("b", 64, 1).Output("b");
  NBits("c", 96, 4).Output("c");
  const Graph graph = Lowered();
  ASSERT_EQ(Ops(graph), "SharedMatMul SharedMatMul");
  EXPECT_EQ(Names(graph, graph.nodes[0].outputs), "a c");
  EXPECT_EQ(IntAttribute(graph.nodes[0], "int8", 0), 1);
  EXPECT_EQ(Names(graph, graph.nodes[1].outputs), "b");
  EXPECT_EQ(IntAttribute(graph.nodes[1], "int8", 0), 0);
}

// y = MatMul(x, w) [2, 3, 64] and z = Add(y, other).
struct Sum {
  Shape other{2, 3, 64};
  bool other_first = false;
  bool is_output = false;
  bool is_read_elsewhere = false;

  std::string LoweredOps() const {
    GraphBuilder b;
    b.Input("x", kF32, Shape{2, 3, 64}).Input("other", kF32, other);
    b.Constant("w", kF32, {64, 64}).Node("MatMul", {"x", "w"}, {"y"});
    b.Node("Add",
           other_first ? std::vector<std::string>{"other", "y"}
                       : std::vector<std::string>{"y", "other"},
           {"z"});
    b.Output("z");
    if (is_output) b.Output("y");
    if (is_read_elsewhere) b.Node("Relu", {"y"}, {"r"}).Output("r");
    return Ops(Lower(b.graph()));
  }
};

TEST(ProductPattern, AnAddIsTakenInIfOnlyItReadsTheProduct) {
  EXPECT_EQ(Sum{}.LoweredOps(), "SharedMatMul");
  EXPECT_EQ(Sum{.other_first = true}.LoweredOps(), "SharedMatMul");
  EXPECT_EQ((Sum{.other = {64}}.LoweredOps()), "SharedMatMul");
  EXPECT_EQ((Sum{.other = {1, 3, 64}}.LoweredOps()), "SharedMatMul");
  EXPECT_EQ(Sum{.is_output = true}.LoweredOps(), "SharedMatMul Add");
  EXPECT_EQ(Sum{.is_read_elsewhere = true}.LoweredOps(), "SharedMatMul Add Relu");
  EXPECT_EQ((Sum{.other = {2, 3, 1}}.LoweredOps()), "SharedMatMul Add") << "another last dimension";
  EXPECT_EQ((Sum{.other = {1, 2, 3, 64}}.LoweredOps()), "SharedMatMul Add") << "a higher rank";
}

TEST_F(ProductPatternTest, AddsInAChainAreTakenInOneByOne) {
  b_.Constant("bias", kF32, {64});
  Product("y", 64).Node("Add", {"y", "bias"}, {"z"}).Node("Add", {"u", "z"}, {"s"}).Output("s");
  const Graph graph = Lowered();
  ASSERT_EQ(Ops(graph), "SharedMatMul");
  EXPECT_EQ(Names(graph, graph.nodes[0].inputs), "x bias u");
  EXPECT_EQ(Names(graph, graph.nodes[0].outputs), "s");
  EXPECT_EQ(IntsAttribute(graph.nodes[0], "addends"), (std::vector<int64_t>{0, 0}));
}

TEST_F(ProductPatternTest, TheLaterOfTwoProductsTakesTheOther) {
  Product("early", 64);
  Product("late", 64, "u");
  b_.Node("Add", {"early", "late"}, {"s"}).Output("s");
  const Graph graph = Lowered();
  ASSERT_EQ(Ops(graph), "SharedMatMul SharedMatMul");
  EXPECT_EQ(Names(graph, graph.nodes[0].outputs), "early");
  EXPECT_EQ(Names(graph, graph.nodes[1].inputs), "u early");
  EXPECT_EQ(Names(graph, graph.nodes[1].outputs), "s");
}

TEST_F(ProductPatternTest, AProductThatIsAddedToItselfStays) {
  Product("y", 64).Node("Add", {"y", "y"}, {"s"}).Output("s");
  EXPECT_EQ(Ops(Lowered()), "SharedMatMul Add");
}

TEST_F(ProductPatternTest, ASumWithARowThatIsComputedLaterDoesNotMoveForward) {
  Product("q", 64).Output("q");
  b_.Node("Relu", {"u"}, {"r"});
  Product("k", 64).Node("Add", {"k", "r"}, {"s"}).Output("s");
  const Graph graph = Lowered();
  ASSERT_EQ(Ops(graph), "SharedMatMul Relu SharedMatMul");
  EXPECT_EQ(Names(graph, graph.nodes[2].inputs), "x r");
}

TEST_F(ProductPatternTest, ABiasOfItsOwnComesFirst) {
  b_.Constant("bias", kF32, {64});
  NBits("y", 64, 4, "bias").Node("Add", {"y", "u"}, {"s"}).Output("s");
  const Graph graph = Lowered();
  ASSERT_EQ(Ops(graph), "SharedMatMul");
  EXPECT_EQ(Names(graph, graph.nodes[0].inputs), "x bias u");
}

// y = Mul(Mul(gate, Sigmoid(gate)), up)
struct Gate {
  bool sigmoid_first = false;
  bool up_first = false;
  int64_t up_size = 64;
  std::string output;  // one more, by name
  std::string read;    // by a Relu, too
  std::string up_input = "x";
  bool has_biases = false;
  bool adds_residual = false;

  Graph Lowered() const {
    GraphBuilder b;
    const auto pair = [](bool swaps, const std::string& a, const std::string& c) {
      return swaps ? std::vector<std::string>{c, a} : std::vector<std::string>{a, c};
    };
    b.Input("x", kF32, Shape{2, 3, 64}).Input("u", kF32, Shape{2, 3, 64});
    b.Constant("g", kF32, {64, 64}, 1).Constant("w", kF32, {64, up_size}, 2);
    b.Constant("bias", kF32, {64}).Result("up", kF32, Shape{2, 3, up_size});
    std::string gate = "gate";
    b.Node("MatMul", {"x", "g"}, {"gate"});
    if (has_biases) b.Node("Add", {"gate", "bias"}, {"gate2"}), gate = "gate2";
    if (adds_residual) b.Node("Add", {"gate", "u"}, {"gate2"}), gate = "gate2";
    b.Node("MatMul", {up_input, "w"}, {"up"});
    b.Node("Sigmoid", {gate}, {"s"}).Node("Mul", pair(sigmoid_first, gate, "s"), {"silu"});
    b.Node("Mul", pair(up_first, "silu", "up"), {"y"}).Output("y");
    if (!output.empty()) b.Output(output);
    if (!read.empty()) b.Node("Relu", {read}, {"r"}).Output("r");
    return Lower(b.graph());
  }

  bool IsOne() const { return Ops(Lowered()) == "SharedMatMul"; }
};

TEST(ProductPattern, AGateIsOneNode) {
  for (bool sigmoid_first : {false, true}) {
    for (bool up_first : {false, true}) {
      const Graph graph = Gate{.sigmoid_first = sigmoid_first, .up_first = up_first}.Lowered();
      ASSERT_EQ(Ops(graph), "SharedMatMul");
      const Node& node = graph.nodes[0];
      EXPECT_EQ(Names(graph, node.outputs), "y");
      ASSERT_EQ(node.matrices.size(), 2u);
      EXPECT_EQ(graph.matrices[node.matrices[0]].codes->name, "g") << "the gate comes first";
      EXPECT_EQ(graph.matrices[node.matrices[1]].codes->name, "w");
      ASSERT_NE(FindAttribute(node, "gate"), nullptr);
      EXPECT_EQ(std::get<std::string>(FindAttribute(node, "gate")->value), "silu");
    }
  }
  EXPECT_TRUE(Gate{.has_biases = true}.IsOne());
}

TEST(ProductPattern, WhatOthersReadOfAGateIsNotTakenIn) {
  for (const char* value : {"gate", "up", "s", "silu"}) {
    EXPECT_FALSE(Gate{.output = value}.IsOne()) << value;
    EXPECT_NE(Ops(Gate{.output = value}.Lowered()).find("Sigmoid"), std::string::npos) << value;
    EXPECT_FALSE(Gate{.read = value}.IsOne()) << value;
    EXPECT_NE(Ops(Gate{.read = value}.Lowered()).find("Sigmoid"), std::string::npos) << value;
  }
}

TEST(ProductPattern, AGateOfProductsThatDifferIsNone) {
  EXPECT_FALSE(Gate{.up_size = 1}.IsOne());
  EXPECT_FALSE(Gate{.up_input = "u"}.IsOne());
  EXPECT_FALSE(Gate{.adds_residual = true}.IsOne());
}

// y and perhaps z are products of n = RMSNormalization(x, g).
struct Normed {
  std::string output;  // one more, by name
  bool is_read = false;
  bool is_added = false;  // to y

  Graph Lowered() const {
    GraphBuilder b;
    b.graph().opsets.front().version = 23;
    b.Input("x", kF32, Shape{2, 3, 64}).Constant("g", kF32, {64});
    b.Node("RMSNormalization", {"x", "g"}, {"n"}, {{"epsilon", 0.25F}});
    b.Constant("w", kF32, {64, 64}, 1).Node("MatMul", {"n", "w"}, {"y"});
    b.Constant("v", kF32, {64, 32}, 2).Result("z", kF32, Shape{2, 3, 32});
    b.Node("MatMul", {"n", "v"}, {"z"}).Output("z");
    if (is_read) b.Node("Relu", {"n"}, {"r"}).Output("r");
    if (is_added) b.Node("Add", {"y", "n"}, {"s"}).Output("s");
    if (!is_added) b.Output("y");
    if (!output.empty()) b.Output(output);
    return Lower(b.graph());
  }
};

TEST(ProductPattern, ANormIsTakenInByItsOnlyReaders) {
  const Graph graph = Normed{}.Lowered();
  ASSERT_EQ(Ops(graph), "SharedMatMul");
  EXPECT_EQ(Names(graph, graph.nodes[0].inputs), "x g");
  EXPECT_EQ(FloatAttribute(graph.nodes[0], "epsilon", 0), 0.25F);
}

TEST(ProductPattern, ANormThatOthersReadStays) {
  EXPECT_EQ(Ops(Normed{.output = "n"}.Lowered()), "RmsNorm SharedMatMul");
  EXPECT_EQ(Ops(Normed{.is_read = true}.Lowered()), "RmsNorm SharedMatMul Relu");
  EXPECT_EQ(Ops(Normed{.is_added = true}.Lowered()), "RmsNorm SharedMatMul SharedMatMul");
}

// z = down(silu(gate(x)) up(x)) + u
struct Unit {
  std::string output;  // one more, by name
  bool is_read = false;

  Graph Lowered() const {
    GraphBuilder b;
    b.Input("x", kF32, Shape{2, 3, 64}).Input("u", kF32, Shape{2, 3, 64});
    b.Constant("g", kF32, {64, 64}, 1).Constant("w", kF32, {64, 64}, 2);
    b.Node("MatMul", {"x", "g"}, {"gate"}).Node("MatMul", {"x", "w"}, {"up"});
    b.Node("Sigmoid", {"gate"}, {"s"}).Node("Mul", {"gate", "s"}, {"a"});
    b.Node("Mul", {"a", "up"}, {"h"});
    b.Constant("d", kF32, {64, 64}, 3).Node("MatMul", {"h", "d"}, {"down"});
    b.Node("Add", {"down", "u"}, {"z"}).Output("z");
    if (is_read) b.Node("Relu", {"h"}, {"r"}).Output("r");
    if (!output.empty()) b.Output(output);
    return Lower(b.graph());
  }
};

TEST(ProductPattern, AProductOfWhatIsGatedIsTakenIn) {
  const Graph graph = Unit{}.Lowered();
  ASSERT_EQ(Ops(graph), "SharedMatMul");
  const Node& node = graph.nodes[0];
  EXPECT_EQ(Names(graph, node.inputs), "x u");
  EXPECT_EQ(Names(graph, node.outputs), "z");
  ASSERT_EQ(node.matrices.size(), 3u);
  EXPECT_EQ(graph.matrices[node.matrices[2]].codes->name, "d");
  EXPECT_EQ(IntsAttribute(node, "addends"), std::vector<int64_t>{2});
}

TEST(ProductPattern, WhatIsGatedStaysForOthers) {
  EXPECT_EQ(Ops(Unit{.output = "h"}.Lowered()), "SharedMatMul SharedMatMul");
  EXPECT_EQ(Ops(Unit{.is_read = true}.Lowered()), "SharedMatMul SharedMatMul Relu");
  EXPECT_EQ(Ops(Unit{.output = "down"}.Lowered()), "SharedMatMul Add");
}

// y = Mul(activation(gate), up), the activation written in nodes that make "a" of "gate".
std::string GateName(const std::function<void(GraphBuilder&)>& activation) {
  GraphBuilder b;
  b.Input("x", kF32, Shape{2, 3, 64});
  b.Constant("g", kF32, {64, 64}, 1).Constant("w", kF32, {64, 64}, 2);
  b.Node("MatMul", {"x", "g"}, {"gate"}).Node("MatMul", {"x", "w"}, {"up"});
  activation(b);
  b.Node("Mul", {"a", "up"}, {"y"}).Output("y");
  const Graph graph = Lower(b.graph());
  if (Ops(graph) != "SharedMatMul") return Ops(graph);
  return std::get<std::string>(FindAttribute(graph.nodes[0], "gate")->value);
}

TEST(ProductPattern, GatesOfGelu) {
  EXPECT_EQ(GateName([](GraphBuilder& b) { b.Node("Gelu", {"gate"}, {"a"}); }), "gelu");
  EXPECT_EQ(GateName([](GraphBuilder& b) {
              b.Node("Gelu", {"gate"}, {"a"}, {}, std::string(kMicrosoftDomain));
            }),
            "gelu");
  EXPECT_EQ(GateName([](GraphBuilder& b) {
              b.Node("Gelu", {"gate"}, {"a"}, {{"approximate", std::string("tanh")}});
            }),
            "gelu_tanh");
  EXPECT_EQ(GateName([](GraphBuilder& b) {
              b.Node("FastGelu", {"gate"}, {"a"}, {}, std::string(kMicrosoftDomain));
            }),
            "gelu_tanh");
}

TEST(ProductPattern, GatesOfGeluInOtherWords) {
  EXPECT_EQ(GateName([](GraphBuilder& b) {
              b.Scalar("root", 1.4142135F).Scalar("one", 1).Scalar("half", 0.5F);
              b.Node("Div", {"gate", "root"}, {"z"}).Node("Erf", {"z"}, {"e"});
              b.Node("Add", {"e", "one"}, {"s"}).Node("Mul", {"gate", "s"}, {"p"});
              b.Node("Mul", {"p", "half"}, {"a"});
            }),
            "gelu");
  const auto tanh_of_cube = [](GraphBuilder& b, const std::string& cube) {
    b.Scalar("c", 0.044715F).Scalar("root", 0.79788456F).Scalar("one", 1).Scalar("half", 0.5F);
    b.Node("Mul", {cube, "c"}, {"t"}).Node("Add", {"gate", "t"}, {"q"});
    b.Node("Mul", {"root", "q"}, {"r"}).Node("Tanh", {"r"}, {"h"}).Node("Add", {"one", "h"}, {"s"});
    b.Node("Mul", {"half", "gate"}, {"p"}).Node("Mul", {"p", "s"}, {"a"});
  };
  EXPECT_EQ(GateName([&](GraphBuilder& b) {
              b.Scalar("three", 3).Node("Pow", {"gate", "three"}, {"cube"});
              tanh_of_cube(b, "cube");
            }),
            "gelu_tanh");
  EXPECT_EQ(GateName([&](GraphBuilder& b) {
              b.Node("Mul", {"gate", "gate"}, {"square"});
              b.Node("Mul", {"square", "gate"}, {"cube"});
              tanh_of_cube(b, "cube");
            }),
            "gelu_tanh");
  EXPECT_EQ(GateName([](GraphBuilder& b) {  // x (0.0356774 x^2 + 0.797885)
              b.Scalar("c", 0.035677408F).Scalar("root", 0.79788456F).Scalar("one", 1);
              b.Scalar("two", 2).Node("Pow", {"gate", "two"}, {"square"});
              b.Node("Mul", {"c", "square"}, {"t"}).Node("Add", {"t", "root"}, {"q"});
              b.Node("Mul", {"gate", "q"}, {"r"}).Node("Tanh", {"r"}, {"h"});
              b.Node("Add", {"h", "one"}, {"s"}).Node("Mul", {"gate", "s"}, {"p"});
              b.Node("Div", {"p", "two"}, {"a"});
            }),
            "gelu_tanh");
}

TEST(ProductPattern, WhatIsNearlyAGeluIsNoGate) {
  const auto erf = [](float root, float half, const std::string& other) {
    return GateName([&](GraphBuilder& b) {
      b.Scalar("root", root).Scalar("one", 1).Scalar("half", half);
      b.Node("Div", {"gate", "root"}, {"z"}).Node("Erf", {"z"}, {"e"});
      b.Node("Add", {"e", "one"}, {"s"}).Node("Mul", {other, "s"}, {"p"});
      b.Node("Mul", {"p", "half"}, {"a"});
    });
  };
  EXPECT_EQ(erf(1.4142135F, 0.5F, "gate"), "gelu");
  EXPECT_NE(erf(1.5F, 0.5F, "gate"), "gelu");
  EXPECT_NE(erf(1.4142135F, 1, "gate"), "gelu");
  EXPECT_NE(erf(1.4142135F, 0.5F, "x"), "gelu");
}

class HalfProductPatternTest : public ProductPatternTest {
 protected:
  HalfProductPatternTest() : ProductPatternTest(kF16) {}
};

TEST_F(HalfProductPatternTest, TandemsOwnReadTheF32) {
  Product("y", 64);
  Product("z", 64, "y").Output("z");
  const Graph graph = Lowered();
  ASSERT_EQ(Ops(graph), "Cast SharedMatMul SharedMatMul Cast") << "y is needed in f32 only";
  EXPECT_EQ(graph.nodes[2].inputs, graph.nodes[1].outputs);
  EXPECT_EQ(graph[graph.nodes[1].outputs[0]].type, kF32);
  EXPECT_EQ(Names(graph, graph.nodes[3].outputs), "z");
}

TEST_F(HalfProductPatternTest, ACastIsMadeWhereSomebodyElseReads) {
  Product("y", 64).Node("Relu", {"y"}, {"r"}).Output("r");
  Product("z", 64, "y").Output("z");
  const Graph graph = Lowered();
  ASSERT_EQ(Ops(graph), "Cast SharedMatMul Cast Relu SharedMatMul Cast");
  EXPECT_EQ(Names(graph, graph.nodes[3].inputs), "y");
  EXPECT_EQ(graph.nodes[4].inputs, graph.nodes[1].outputs);
}

TEST_F(HalfProductPatternTest, AddendsAreCastOnce) {
  Product("y", 64).Node("Add", {"y", "x"}, {"s"}).Output("s");
  const Graph graph = Lowered();
  ASSERT_EQ(Ops(graph), "Cast SharedMatMul Cast") << "x is the activation and the addend";
  EXPECT_EQ(graph.nodes[1].inputs[0], graph.nodes[1].inputs[1]);
}

TEST_F(ProductPatternTest, AResidualOfOneProductOfSeveralIsAlone) {
  Product("q", 64).Output("q");
  Product("k", 64).Node("Add", {"k", "u"}, {"s"}).Output("s");
  Product("v", 64).Output("v");
  const Graph graph = Lowered();
  ASSERT_EQ(Ops(graph), "SharedMatMul SharedMatMul");
  EXPECT_EQ(Names(graph, graph.nodes[0].outputs), "q v");
  EXPECT_EQ(Names(graph, graph.nodes[1].inputs), "x u");
}

}  // namespace
}  // namespace tandem
